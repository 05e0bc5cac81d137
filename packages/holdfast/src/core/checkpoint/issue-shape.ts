import type { IssueSnapshot } from "./checkpoint.ts";
import { count, list, object, oneOf, text } from "../shape.ts";
import type { Shape } from "../shape.ts";

/** An issue as a run keeps it, among its inputs and among its values. */
export const issueShape: Shape<IssueSnapshot> = object<IssueSnapshot>({
  number: count,
  title: text,
  body: text,
  labels: list(text),
  state: oneOf({ open: true, closed: true }),
  updatedAt: text,
});
