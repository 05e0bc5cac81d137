import { HoldfastError } from "../core/error.ts";
import type { Json } from "../core/json.ts";
import type { Api } from "./api.ts";
import type { Judged } from "./judge-answer.ts";

/** How the four ways in which a write can end are told from each other, the same for every forge and every thing. */
export interface Written<T> {
  readonly request: Parameters<Api["write"]>[0];
  /** What was made, from the answer that says so. */
  readonly done: (body: Json | undefined, what: string) => T | Promise<T>;
  /** The answer was lost: is it there all the same? null: it is not. */
  readonly find: () => Promise<T | null>;
  /** A thing that can be read, and of which the write says that it is not there. */
  readonly hidden: () => HoldfastError | Promise<HoldfastError>;
  /** Refused; it may be there because somebody was quicker. */
  readonly refused: (refusal: Extract<Judged, { kind: "refused" }>) => T | HoldfastError | Promise<T | HoldfastError>;
}

/** Sent once. Nothing is sent again blindly: what was lost and is not found is an error that says so. */
export async function writeOnce<T>(api: Api, written: Written<T>): Promise<T> {
  const { request } = written;
  const what = `${request.method} ${request.path}`;
  const judged = await api.write(request);
  switch (judged.kind) {
    case "ok":
      return await written.done(judged.body, what);
    case "lost": {
      const made = await written.find();
      if (made !== null) return made;
      throw api.lost(what, judged);
    }
    case "absent":
      throw await written.hidden();
    case "refused": {
      const answer = await written.refused(judged);
      if (answer instanceof HoldfastError) throw answer;
      return answer;
    }
  }
}
