// The reader's Python, in a worker of the page. First it is sent the names of the files of Pyodide and
// the package, and each of them once the page has unpacked it; then the name of a function of
// transformer_practice.workspace, such as "page.run", and its arguments, again and again.
self.importScripts = undefined; // Pyodide refuses the one kind of worker that a folder allows
const files = {}, arrive = {};
self.onmessage = async ({ data }) => {
  try {
    if (data.name) arrive[data.name](data.content);
    else if (data.names) {
      for (const name of data.names)
        files[name] = new Promise((resolve) => { arrive[name] = resolve; });
      await start();
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

const start = async () => {
  const address = async (name) =>
    URL.createObjectURL(new Blob([await files[name]], { type: "text/javascript" }));
  const fetched = self.fetch;
  self.fetch = async (file, options) => {
    const name = String(file.url ?? file).split("/").pop();
    if (!(name in files)) return fetched(file, options);
    const type = name.endsWith(".wasm") ? "application/wasm" : "application/octet-stream";
    return new Response(await files[name], { headers: { "Content-Type": type } });
  };
  const { loadPyodide } = await import(await address("pyodide.mjs"));
  const { default: createPyodideModule } = await import(await address("pyodide.asm.mjs"));
  const pyodide = await loadPyodide({
    createPyodideModule,
    indexURL: "file:///",
    stdLibURL: "file:///library.zip",
    lockFileContents: new TextDecoder().decode(await files["pyodide-lock.json"]),
  });
  const extractDir = pyodide.runPython("import site; site.getsitepackages()[0]");
  for (const name of ["numpy.zip", "package.zip"])
    pyodide.unpackArchive(await files[name], "zip", { extractDir });
  self.python = (name) => {
    const found = pyodide.pyimport(`transformer_practice.workspace.${name}`);
    return (...given) => found(...given.map((each) => pyodide.toPy(each)));
  };
};
