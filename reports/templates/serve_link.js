"use strict";
parent.postMessage({ open: document.querySelector("p").dataset.wanted + location.hash }, "*");
