import { HoldfastError } from "../core/error.ts";

export function requireText(name: string, text: string): void {
  if (text.trim() !== "" && !/[\n\r\0]/.test(text)) return;
  throw new HoldfastError({
    code: "USAGE",
    message: `${JSON.stringify(text)} cannot be used as a ${name}`,
    hint: "Give one line of text.",
  });
}
