// The reader's Python, in a worker of the page. First it is sent the files of Pyodide and the
// package, then the name of a function of transformer_practice.workspace, such as "page.run", and its
// arguments, again and again.
self.importScripts = undefined; // Pyodide refuses the one kind of worker that a folder allows
self.onmessage = async ({ data }) => {
  try {
    if (data.files) {
      await start(data.files);
      const begin = self.python("page.begin");
      self.postMessage({});
      begin(); // while the reader writes
      self.postMessage({});
    } else {
      const [name, ...given] = data.call;
      self.postMessage({ answer: JSON.parse(self.python(name)(...given)) });
    }
  } catch (error) {
    self.postMessage({ failure: String(error.message ?? error) });
  }
};

const start = async (files) => {
  const address = (name, type) => URL.createObjectURL(new Blob([files[name]], { type }));
  const fetched = self.fetch;
  self.fetch = (file, options) => {
    const name = String(file.url ?? file).split("/").pop();
    if (!(name in files)) return fetched(file, options);
    const type = name.endsWith(".wasm") ? "application/wasm" : "application/octet-stream";
    return Promise.resolve(new Response(files[name], { headers: { "Content-Type": type } }));
  };
  const { loadPyodide } = await import(address("pyodide.mjs", "text/javascript"));
  const { default: createPyodideModule } = await import(
    address("pyodide.asm.mjs", "text/javascript")
  );
  const pyodide = await loadPyodide({
    createPyodideModule,
    indexURL: "file:///",
    stdLibURL: "file:///library.zip",
    lockFileContents: new TextDecoder().decode(files["pyodide-lock.json"]),
  });
  const extractDir = pyodide.runPython("import site; site.getsitepackages()[0]");
  for (const name of ["numpy.zip", "package.zip"])
    pyodide.unpackArchive(files[name], "zip", { extractDir });
  self.python = (name) => {
    const found = pyodide.pyimport(`transformer_practice.workspace.${name}`);
    return (...given) => found(...given.map((each) => pyodide.toPy(each)));
  };
};
