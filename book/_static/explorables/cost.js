explore("cost", () => {});
