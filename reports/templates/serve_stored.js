"use strict";
const frame = document.getElementById("stored");
if (location.hash) frame.src += location.hash;

// A link of the stored page to another one: its own word does not open that, so the frame's content says what it is
// asked for (serve_link.js). Whoever wrote the page may say anything here: it is a file's place below ours, or nothing.
addEventListener("message", (event) => {
  if (event.source !== frame.contentWindow || typeof event.data?.open !== "string" || !navigator.userActivation.isActive) return;
  const files = new URL(frame.dataset.files, location.href), wanted = new URL(event.data.open, files);
  if (wanted.origin === files.origin && wanted.pathname.startsWith(files.pathname)) location.assign(wanted);
});
