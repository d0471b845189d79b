explore("simplex", () => {});
