// Browsers start no workers for a page that was opened from disk. There, the script of a worker runs in a hidden frame instead, so that
// the search works. The frame offers the script what it uses of a worker: messages and importScripts.
if (location.protocol === "file:") {
  class FrameWorker extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = "<!doctype html><title>worker</title>";
      this.started = new Promise((resolve, reject) => {
        frame.addEventListener("load", () => this.start(frame.contentWindow, String(url)).then(resolve, reject), { once: true });
      });
      document.body.append(frame);
    }

    async start(inside, url) {
      this.inside = inside;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = async (...urls) => {
        for (const each of urls) await this.load(each);
      };
      await this.load(url);
    }

    load(url) {
      return new Promise((resolve, reject) => {
        const script = this.inside.document.createElement("script");
        script.src = url;
        script.addEventListener("load", resolve);
        script.addEventListener("error", () => reject(new Error(`cannot load ${url}`)));
        this.inside.document.body.append(script);
      });
    }

    async postMessage(data) {
      await this.started;
      this.inside.dispatchEvent(new MessageEvent("message", { data }));
    }
  }

  window.IFrameWorker = FrameWorker; // the name by which a script knows that it runs in a frame
  window.Worker = FrameWorker;
}
