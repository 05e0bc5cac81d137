import type * as z from "zod/mini";
import { damagedFile } from "./forge-file.ts";
import type { ForgePlace } from "./forge-place.ts";

/** A JSON file of the forge, checked; what does not fit is told with the file's name and the place in it. */
export function parseJson<T>(params: {
  readonly place: Pick<ForgePlace, "directory">;
  readonly path: string;
  readonly text: string;
  readonly schema: z.ZodMiniType<T>;
}): T {
  const parsed = params.schema.safeParse(readJson(params));
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const where = issue === undefined || issue.path.length === 0 ? "" : `${issue.path.map(String).join(".")}: `;
  throw damagedFile(params.place, params.path, `${where}${issue?.message ?? "it does not fit"}`);
}

function readJson(params: Parameters<typeof parseJson>[0]): unknown {
  try {
    return JSON.parse(params.text);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw damagedFile(params.place, params.path, `it is not JSON: ${why}`);
  }
}
