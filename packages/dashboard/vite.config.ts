// Builds the page into the folder that `scripts/build.mjs` names. Every file is served by the loopback server under a policy that allows neither
// inline scripts nor data: addresses, so nothing is inlined.
import { defineConfig } from "vite";

/** The modules of the first page. */
const FIRST =
  /\/src\/(?:main|layout|inbox|runs|rows|parts|words|store|router|client|live|keys|dialog|plan-sheet)\.tsx?$|\/preact\/|preload-helper|rolldown\/runtime/;

export default defineConfig({
  root: import.meta.dirname,
  base: "/",
  publicDir: false,
  logLevel: "warn",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    target: "es2023",
    // light-dark() and container queries stay as they are written.
    cssTarget: ["chrome123", "firefox121", "safari17.5"],
    assetsDir: "assets",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    emptyOutDir: true,
    reportCompressedSize: false,
    // The first page needs one script. Each other part is loaded when it is first shown.
    rolldownOptions: { output: { codeSplitting: { groups: [{ name: "page", test: FIRST }] } } },
  },
});
