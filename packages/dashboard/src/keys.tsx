// The keyboard: one table for the help sheet, and handlers that pages register while they are shown.
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Dialog } from "./dialog.tsx";
import { createStore, paletteShown, singleKeys, useStore } from "./store.ts";

const KEYS: readonly (readonly [string, readonly (readonly [string, string])[]])[] = [
  [
    "Everywhere",
    [
      ["Ctrl K", "search or run a command"],
      ["/", "filter"],
      ["g i", "needs you"],
      ["g r", "runs"],
      ["g c", "compare"],
      ["j k", "next, previous row"],
      ["Enter o", "open"],
      ["x", "select for comparison"],
      [".", "copy the command of this page"],
      ["F", "freeze or continue live updates"],
      ["Esc", "close, clear, go up"],
      ["?", "this list"],
    ],
  ],
  [
    "Run and checkpoint",
    [
      ["← →", "previous, next checkpoint"],
      ["[ ]", "first, second point of a comparison"],
      ["d", "changes between them"],
      ["n p", "next, previous change"],
      ["v", "diff in one or two columns"],
      ["c", "copy the file into the other run"],
      ["+ - 0", "zoom the timeline in, out, all of it"],
      ["e w", "expand, collapse all"],
      ["r f t", "plan a restore, plan a fork, tag"],
      ["u", "plan the undo of the last change"],
      ["J K", "next, previous run"],
      ["1…9", "tab, or option of a question"],
    ],
  ],
];

type Handlers = Readonly<Record<string, () => void>>;
const registered: { current: Handlers }[] = [];
let pending = "";

/** Handlers are found from the newest part of the page to the oldest. A key is `j`, `g i`, `ArrowLeft` or `ctrl+k`. */
export function useKeys(handlers: Handlers): void {
  const own = useRef(handlers);
  own.current = handlers;
  useEffect(() => {
    registered.push(own);
    return () => {
      registered.splice(registered.indexOf(own), 1);
    };
  }, []);
}

export function startKeys(): () => void {
  const onKey = (event: KeyboardEvent): void => {
    // Keys that are typed before the palette has appeared are meant for it.
    if (event.defaultPrevented || event.altKey || paletteShown.get()) return;
    const command = event.ctrlKey || event.metaKey;
    if (event.key === "Escape" && document.querySelector("dialog[open]") === null && closeMenus()) {
      event.preventDefault();
      return;
    }
    if (!command && (isTyping(event.target) || document.querySelector("dialog[open]") !== null)) return;
    if (!command && event.key.length === 1 && singleKeys.get() === "off") return;
    const pressed = command ? `ctrl+${event.key.toLowerCase()}` : `${pending}${event.key}`;
    pending = "";
    const handler = registered.findLast(({ current }) => Object.hasOwn(current, pressed))?.current[pressed];
    if (handler === undefined) {
      // Until the next key, however late it comes.
      if (!command && event.key === "g") pending = "g ";
      return;
    }
    const own = event.key.startsWith("Arrow") ? OWN_ARROWS : event.key === "Enter" ? OWN_ENTER : null;
    if (own !== null && event.target instanceof Element && event.target.closest(own) !== null) return;
    event.preventDefault();
    handler();
  };
  document.addEventListener("keydown", onKey);
  document.addEventListener("click", closeAfterClick);
  return () => {
    document.removeEventListener("keydown", onKey);
    document.removeEventListener("click", closeAfterClick);
  };
}

/** What handles these keys itself while it has the focus: it opens, sends its form, chooses among its options, or scrolls. */
const OWN_ENTER = "a, button, summary, form";
const OWN_ARROWS = "input[type=radio], [role=region], [role=log]";

/** Returns whether a menu was open. The focus goes back to what opened it. */
function closeMenus(): boolean {
  const open = [...document.querySelectorAll<HTMLDetailsElement>("details.menu[open]")];
  for (const menu of open) {
    if (menu.contains(document.activeElement)) menu.querySelector("summary")?.focus();
    menu.open = false;
  }
  return open.length > 0;
}

/** A menu closes after an action and after a click elsewhere. An action that is not possible leaves it open: its reason is there. */
function closeAfterClick({ target }: MouseEvent): void {
  if (target instanceof Element && target.closest("summary, .menu-body [aria-disabled=true]") === null) closeMenus();
}

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    target.closest("input:not([type=checkbox], [type=radio]), textarea, select") !== null
  );
}

export const keysShown = createStore(false);

export function KeysSheet(): JSX.Element | null {
  const shown = useStore(keysShown);
  const single = useStore(singleKeys);
  if (!shown) return null;
  return (
    <Dialog label="Keys" onClose={() => keysShown.set(false)}>
      <div class="sheet-body spaced keys" role="region" aria-label="All keys" tabIndex={0}>
        {KEYS.map(([where, keys]) => (
          <section key={where}>
            <h2>{where}</h2>
            <dl>
              {keys.map(([key, about]) => (
                <div key={key}>
                  <dt>
                    {key.split(" ").map((one) => (
                      <kbd key={one}>{one}</kbd>
                    ))}
                  </dt>
                  <dd>{about}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
      <div class="sheet-end">
        <label class="check">
          <input
            type="checkbox"
            checked={single === "on"}
            onChange={(event) => singleKeys.set(event.currentTarget.checked ? "on" : "off")}
          />
          shortcuts of a single key
        </label>
        <button type="button" class="push" onClick={() => keysShown.set(false)} autofocus>
          Close
        </button>
      </div>
    </Dialog>
  );
}
