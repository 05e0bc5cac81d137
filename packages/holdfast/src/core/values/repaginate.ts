import type { Level, Page } from "./memo.ts";
import type { Edit } from "./rows.ts";

/**
 * What paginate makes, when it is known what was edited since the base: pages without an edit in them are taken over unseen. Cuts
 * hang on the entries of their page alone, so behind an edit it is enough to go on until a page of the base begins at
 * the same entry. Says of the pages themselves what was edited, for the level above.
 */
export function repaginate(task: Task): { readonly pages: Level; readonly edits: readonly Edit[] } {
  const work = new Repagination(task);
  const edits: Edit[] = [];
  work.takeOver();
  while (!work.isOver) {
    const { page: from, basePage: baseFrom } = work;
    work.rebuild();
    edits.push({ baseFrom, baseTo: work.basePage, from, to: work.page });
    work.takeOver();
  }
  return { pages: work.pages, edits };
}

interface Task {
  readonly length: number;
  /** Those of the base; none: everything is edited. */
  readonly base: Level;
  /** In order. */
  readonly edits: readonly Edit[];
  /** Makes the page that begins at entry `from`; `near` are pages of the base about there. */
  readonly build: (from: number, near: Level) => Page;
  /** For every page as soon as it is known that it will not be the only one. */
  readonly emit: (page: Page) => void;
}

class Repagination {
  readonly pages: Page[] = [];
  /** How many pages of the base are behind us. */
  basePage = 0;
  readonly #task: Task;
  /** Entries behind us: here, and in the base. */
  #at = 0;
  #baseAt = 0;
  /** The next edit. */
  #next = 0;

  constructor(task: Task) {
    this.#task = task;
  }

  get page(): number {
    return this.pages.length;
  }

  get isOver(): boolean {
    return this.#next >= this.#task.edits.length;
  }

  /** Pages of the base up to the next edit. The last one was cut by the row's end, so it fits only if no edit is left. */
  takeOver(): void {
    const { base, edits } = this.#task;
    const until = edits[this.#next]?.baseFrom ?? Infinity;
    const end = this.isOver ? base.length : base.length - 1;
    for (let page = base[this.basePage]; page !== undefined && this.basePage < end; page = base[this.basePage]) {
      if (this.#baseAt + page.count > until) return;
      this.#push(page, false);
      this.#baseAt += page.count;
      this.basePage += 1;
    }
  }

  /** Builds until a page of the base begins where ours ended, or all is built. */
  rebuild(): void {
    const { base, edits, length, build } = this.#task;
    let shift = this.#baseAt - this.#at;
    while (this.#at < length) {
      this.#push(build(this.#at, base.slice(this.basePage, this.basePage + 2)), true);
      for (let edit = edits[this.#next]; edit !== undefined && edit.to <= this.#at; edit = edits[this.#next]) {
        shift = edit.baseTo - edit.to;
        this.#next += 1;
      }
      const open = edits[this.#next];
      if (open !== undefined && open.from < this.#at) continue;
      this.#passBase(this.#at + shift);
      if (this.#baseAt === this.#at + shift && this.basePage < base.length) return;
    }
    this.#next = edits.length;
    this.basePage = base.length;
  }

  #passBase(until: number): void {
    const { base } = this.#task;
    for (let page = base[this.basePage]; page !== undefined && this.#baseAt < until; page = base[this.basePage]) {
      this.#baseAt += page.count;
      this.basePage += 1;
    }
  }

  #push(page: Page, isNew: boolean): void {
    const { base, length, emit } = this.#task;
    this.pages.push(page);
    this.#at += page.count;
    // The only page of a base was not emitted.
    if ((isNew || base.length === 1) && (this.#at < length || this.pages.length > 1)) emit(page);
  }
}
