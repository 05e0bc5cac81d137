import type { FormatName, ForeignFile, Remark } from "./format.ts";
import { damagedDocument } from "./refusals.ts";

/** Beyond any checkpoint that was ever seen, and below what would bring a small machine down when it is parsed. */
export const MAX_DOCUMENT_BYTES = 64 * 1024 * 1024;

/** Strict: one byte that is not UTF-8 and nothing is read, where others would put a replacement character into your work. */
export function readText(
  file: ForeignFile,
  format: FormatName,
): { readonly text: string; readonly remarks: readonly Remark[] } {
  const source = { format, file: file.path };
  if (file.bytes.length > MAX_DOCUMENT_BYTES) {
    const why = `it has ${file.bytes.length} bytes, more than the ${MAX_DOCUMENT_BYTES} that are read`;
    throw damagedDocument(source, { why });
  }
  let text: string;
  try {
    text = UTF8.decode(file.bytes);
  } catch (cause) {
    throw damagedDocument(source, { why: "it is not UTF-8", cause });
  }
  return { text, remarks: hasMark(file.bytes) ? [MARK] : [] };
}

const UTF8 = new TextDecoder("utf-8", { fatal: true });
const MARK: Remark = { path: "", text: "It begins with a byte order mark, which is not written back" };

function hasMark(bytes: Uint8Array): boolean {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
}
