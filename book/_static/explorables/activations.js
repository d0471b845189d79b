explore("activations", () => {});
