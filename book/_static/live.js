// Python in the page: exercises are examined and listings run, in a worker; and whatever else calls a
// function of transformer_practice.workspace by live.call(seconds or 0, "module.name", ...).
const live = (() => {
  const LIVE = new URL("../live/", document.currentScript.src);
  const STORE = "transformers-by-hand";
  const SECONDS = 20; // after which an examination is ended; a listing has a button for it

  // What is kept: answers by the names of their exercises, and the progress as progress.json.
  let state = { answers: {}, progress: {} };
  const read = () => (state = storage.read(STORE, state));
  const keep = ({ answers, progress }) => {
    read();
    Object.assign(state.answers, answers);
    Object.assign(state.progress, progress);
    storage.write(STORE, state);
  };

  const script = (name) =>
    new Promise((resolve, reject) => {
      const onerror = () => reject(new Error("There is no Python in this copy of the book: make live adds it."));
      document.head.append(make("script", { src: new URL(name, LIVE), onload: resolve, onerror }));
    });
  const once = (work) => {
    let promise;
    return () => (promise ??= work());
  };
  const editor = once(() => script("editor.js"));

  // The files, each a script with base 64 of what gzip has made of it: a folder serves no others.
  const loading = new EventTarget();
  let loaded = 0;
  const advance = (part) => {
    loaded += part;
    loading.dispatchEvent(new Event("progress"));
  };
  // How much of them is there, until all are.
  const waiting = () => {
    const bar = make("progress", { max: 1, ariaLabel: "Python is loading" });
    const wait = make("p", { className: "live-wait" }, "Python is loading (15 MB). ", bar);
    const show = () => {
      bar.value = loaded;
      wait.hidden = loaded >= 1;
    };
    loading.addEventListener("progress", show);
    show();
    return wait;
  };
  const unpack = async (name) => {
    let text;
    window.liveFile = (_, given) => { text = given; };
    await script(`${name}.js`);
    const packed = await fetch(`data:application/octet-stream;base64,${text}`);
    const stream = packed.body.pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).arrayBuffer();
  };
  // Promises of them by name, kept one after the other.
  const files = once(async () => {
    await script("index.js");
    const all = Object.values(liveFiles).reduce((a, b) => a + b);
    const found = {};
    let last;
    for (const [name, size] of Object.entries(liveFiles))
      found[name] = last = Promise.resolve(last).then(async () => {
        const content = await unpack(name);
        advance((0.7 * size) / all);
        return content;
      });
    return found;
  });

  // The worker: one call at a time, and a new worker after one that was ended.
  let worker, ready, begun, calls = Promise.resolve(), end = () => {};
  const answer = () =>
    new Promise((resolve, reject) => {
      worker.onmessage = ({ data }) =>
        data.failure ? reject(new Error(data.failure)) : resolve(data.answer);
      worker.onerror = (event) => reject(new Error(event.message));
      end = (said) => {
        worker.terminate();
        ready = undefined;
        reject(new Error(said));
      };
    });
  const send = async (found, to) => {
    for (const [name, file] of Object.entries(found)) to.postMessage({ name, content: await file });
  };
  const start = () =>
    (ready ??= files().then(async (found) => {
      const code = new Blob([await found["worker.js"]], { type: "text/javascript" });
      worker = new Worker(URL.createObjectURL(code));
      worker.postMessage({ names: Object.keys(found) });
      await Promise.all([answer(), send(found, worker)]);
      advance(1 - loaded);
      begun = answer();
      begun.catch(() => {});
    }));
  const call = (limit, ...given) => {
    const next = calls.then(async () => {
      await start();
      await begun;
      const timer = limit && setTimeout(
        () => end(`It did not return within ${limit} s: is there a loop that never ends?`),
        1000 * limit,
      );
      worker.postMessage({ call: given });
      try {
        return await answer();
      } finally {
        clearTimeout(timer);
        if (!ready) start(); // anew, before it is asked for
      }
    });
    calls = next.catch(() => {});
    return next;
  };

  // A place with an editor, buttons and what is said below them.
  const panel = async (place, label, text, change, buttons) => {
    const wait = waiting();
    const said = make("div", { className: "live-said", role: "status" });
    const code = make("div", { className: "live-code highlight" });
    const row = make("div", { className: "live-buttons" });
    const stop = make("button", { type: "button", textContent: "Stop", hidden: true, onclick: () => end("Stopped.") });
    place.append(code, row, wait, said);

    const fail = (error) => {
      wait.hidden = true;
      said.replaceChildren(make("p", { className: "live-failed" }, error.message.trim()));
    };
    const act = async (action) => {
      row.querySelectorAll("button").forEach((each) => { each.disabled = each !== stop; });
      stop.hidden = false;
      said.setAttribute("aria-busy", "true");
      try {
        await action(said);
      } catch (error) {
        fail(error);
      }
      stop.hidden = true;
      said.removeAttribute("aria-busy");
      row.querySelectorAll("button").forEach((each) => { each.disabled = false; });
    };
    try {
      await editor();
    } catch (error) {
      return fail(error);
    }
    let current = text;
    const run = () => row.firstChild.disabled || row.firstChild.click();
    const view = liveEditor.edit(code, text, label, (now) => change((current = now)), run);
    const self = {
      code: () => current,
      write: (now) => liveEditor.replace(view, now),
    };
    for (const [textContent, action] of Object.entries(buttons))
      row.append(make("button", { type: "button", textContent, onclick: () => act((said) => action(said, self)) }));
    row.append(stop);
    start().catch(fail);
    return self;
  };

  const show = (said, html) => {
    said.innerHTML = html;
    said.querySelectorAll(".examined").forEach((report) => { report.tabIndex = 0; }); // it scrolls
  };
  const download = (name, url) => make("a", { download: name, href: url }).click();

  // The exercises of the chapter.
  const panels = {};
  const exercise = (place) => {
    const name = place.dataset.exercise;
    const stub = place.querySelector("pre");
    const starter = stub.textContent;
    if (read().answers[name]) place.classList.add("live-begun");
    const tell = async (said, action) => {
      const found = await call(SECONDS, `page.${action}`, name, JSON.stringify(read()));
      keep(found);
      show(said, found.html);
    };
    const open = once(async () => {
      const text = read().answers[name] ?? starter;
      const change = (code) => keep({ answers: { [name]: code } });
      panels[name] = await panel(place, `Your answer to ${name}`, text, change, {
        Examine: (said, self) => {
          keep({ answers: { [name]: self.code() } });
          return tell(said, "examine");
        },
        Hint: (said) => tell(said, "hint"),
        "Start again": (said, self) => self.write(starter),
        Ledger: async (said) => {
          const found = await call(0, "page.make_ledger", JSON.stringify(read()));
          keep(found);
          said.replaceChildren(
            make("iframe", { className: "live-ledger", title: "Your ledger", srcdoc: found.page }),
          );
        },
        Save: async (said) => {
          const { zip } = await call(0, "page.pack", JSON.stringify(read()));
          download("mine.zip", `data:application/zip;base64,${zip}`);
          said.textContent = "Saved as mine.zip: unpacked, it is a workspace.";
        },
        Open: () =>
          new Promise((resolve, reject) => {
            const field = make("input", { type: "file", accept: ".zip,.py" });
            field.oncancel = resolve;
            field.onchange = () => take(field.files[0]).then(resolve, reject);
            field.click();
          }),
      });
      if (panels[name]) stub.remove();
    });
    place.addEventListener("toggle", open);
  };
  const take = async (file) => {
    const content = await new Promise((resolve) => {
      const reader = new FileReader();
      reader.onload = () => resolve(reader.result.split(",")[1] ?? "");
      reader.readAsDataURL(file);
    });
    const found = await call(SECONDS, "page.unpack", file.name, content);
    keep(found);
    for (const [name, code] of Object.entries(found.answers)) panels[name]?.write(code);
  };

  // The listings of the chapter.
  const listing = (block) => {
    const wrapper = block.closest(".literal-block-wrapper");
    const path = wrapper?.querySelector(".code-block-caption code")?.textContent ?? "";
    if (path && !/^transformer_(core|practice)\//.test(path)) return;
    const text = block.querySelector("pre").textContent.trimEnd();
    const button = make("button", { type: "button", textContent: "Change and run" });
    const place = make("div", { className: "live-listing" }, button);
    (wrapper ?? block).after(place);
    button.onclick = async () => {
      button.hidden = true;
      const opened = await panel(place, "The listing", text, () => {}, {
        Run: async (said, self) => {
          const found = await call(0, "page.run", self.code(), path, wrapper?.id ?? "");
          show(said, found.html);
          if (found.printed) said.prepend(make("pre", { textContent: found.printed }));
        },
        "As it was": (said, self) => self.write(text),
      });
      if (opened) block.classList.add("live-opened");
    };
  };

  document.querySelectorAll("details.live").forEach(exercise);
  document
    .querySelectorAll(".bd-article div.highlight-python")
    .forEach((block) => block.closest(".right-and-wrong") || listing(block));

  return { call, waiting };
})();
