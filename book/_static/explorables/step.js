explore("step", () => {});
