/* The search runs in a worker, which browsers refuse to pages from the file system. There it runs in a
 * hidden frame instead: the same script, with the three functions of a worker that it uses. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.waiting = []
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      this.frame.srcdoc = "<!doctype html><html></html>"
      this.frame.onload = () => this.start(new URL(url, location.href).href)
      document.documentElement.append(this.frame)
    }

    start(url) {
      const inner = this.frame.contentWindow
      this.frame.onload = null
      inner.postMessage = (data) => this.deliver(this, data)
      inner.importScripts = () => {}
      const script = inner.document.createElement("script")
      script.src = url
      script.onload = () => {
        const waiting = this.waiting
        this.waiting = null
        waiting.forEach((data) => this.deliver(inner, data))
      }
      inner.document.documentElement.append(script)
    }

    postMessage(data) {
      if (this.waiting) {
        this.waiting.push(data)
      } else {
        this.deliver(this.frame.contentWindow, data)
      }
    }

    deliver(target, data) {
      const event = new MessageEvent("message", { data })
      setTimeout(() => {
        target.dispatchEvent(event)
        if (target === this && this.onmessage) {
          this.onmessage(event)
        }
      })
    }

    terminate() {
      this.frame.remove()
    }
  }
}
