// A page that is opened from a folder may start no worker, which the search needs: a frame stands in for it.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => {
        const copy = structuredClone(data); // as a worker would send it
        setTimeout(() => this.onmessage?.({ data: copy }));
      };
      this.ready = new Promise((resolve, reject) => {
        const script = inside.document.createElement("script");
        script.onload = resolve;
        script.onerror = reject;
        script.src = url;
        inside.document.body.append(script);
      });
      this.ready.catch((error) => this.onerror?.(error));
    }
    postMessage(data) {
      const copy = structuredClone(data); // as a worker would get it
      this.ready.then(() => this.frame.contentWindow.onmessage({ data: copy }));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
