// A modal dialog of the browser, which keeps the focus inside and gives it back.
import type { ComponentChildren, JSX, TargetedKeyboardEvent } from "preact";
import { useEffect, useRef } from "preact/hooks";

export function Dialog(props: {
  readonly label: string;
  readonly onClose: () => void;
  readonly class?: string;
  readonly onKeyDown?: (event: TargetedKeyboardEvent<HTMLDialogElement>) => void;
  readonly children: ComponentChildren;
}): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    dialog.current?.showModal();
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      aria-label={props.label}
      class={props.class ?? ""}
      onKeyDown={props.onKeyDown}
      onCancel={(event) => {
        event.preventDefault();
        props.onClose();
      }}
      onClick={(event) => {
        if (event.target === dialog.current) props.onClose();
      }}
    >
      <div class="sheet">{props.children}</div>
    </dialog>
  );
}
