// The entry of the page: opens the session, follows the address, and renders.
import "./style.css";
import "./pages.css";
import "./run.css";
import { render } from "preact";
import { openSession } from "./client.ts";
import { Layout } from "./layout.tsx";
import { startLive } from "./live.ts";
import { readAddress } from "./parts.tsx";
import { theme } from "./store.ts";

function applyTheme(value: string): void {
  if (value === "auto") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = value;
}

applyTheme(theme.get());
theme.subscribe(applyTheme);
readAddress();
addEventListener("popstate", readAddress);
const root = document.getElementById("page");
if (root !== null) render(<Layout />, root);
await openSession();
startLive();
