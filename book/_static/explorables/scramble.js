explore("scramble", () => {});
