// Browsers start no worker for a page that is a file. The search gets a frame in place of one.
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      document.body.appendChild(frame);
      const inside = frame.contentWindow;
      this.inside = inside;
      this.ready = new Promise((done) => {
        frame.contentDocument.open();
        inside.postMessage = parent => this.dispatchEvent(new MessageEvent("message", { data: parent }));
        inside.importScripts = (...urls) =>
          urls.reduce(
            (before, one) =>
              before.then(
                () =>
                  new Promise((loaded) => {
                    const script = frame.contentDocument.createElement("script");
                    script.src = new URL(one, url);
                    script.onload = loaded;
                    frame.contentDocument.body.appendChild(script);
                  }),
              ),
            Promise.resolve(),
          );
        const script = frame.contentDocument.createElement("script");
        frame.contentDocument.write("<!doctype html><html lang=en><title>search</title><body></body></html>");
        frame.contentDocument.close();
        script.src = url;
        script.onload = done;
        frame.contentDocument.body.appendChild(script);
      });
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {}
  };
