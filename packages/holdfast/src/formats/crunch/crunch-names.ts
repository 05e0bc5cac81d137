/** Files of a crunch directory by their names; one that is packed says so at its end. */

const CHECKPOINT = /\.(?:ya?ml|json)(?:\.gz|\.lz4)?$/i;

export function isIndexName(name: string): boolean {
  return /^index\.(?:ya?ml|json)$/i.test(name);
}

export function isCheckpointName(name: string): boolean {
  return CHECKPOINT.test(name);
}

/** The id that a file's name promises. */
export function idOfName(name: string): string {
  return name.replace(CHECKPOINT, "");
}

/** Crunch wrote JSON before 2026; what is not so called is YAML. */
export function isJsonName(path: string): boolean {
  return /\.json(?:\.gz|\.lz4)?$/i.test(path);
}

/** Of a document that was written, by the place it goes to. */
export function idOfPath(path: string): string {
  return idOfName(nameOf(path));
}

export function nameOf(path: string): string {
  return path.split(/[/\\]/).at(-1) ?? path;
}
