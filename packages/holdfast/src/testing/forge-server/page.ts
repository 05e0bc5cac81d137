import type { Incoming, Reply } from "./exchange.ts";

/** One page of a list, with the `Link` header by which clients find the next: at most 100 a page, 30 unless asked. */
export function pageOf(incoming: Incoming, all: readonly unknown[]): { readonly items: readonly unknown[] } & Reply {
  const number = (name: string, otherwise: number): number =>
    Math.max(1, Number(incoming.query.get(name) ?? otherwise) || otherwise);
  const size = Math.min(100, number("per_page", 30));
  const page = number("page", 1);
  const last = Math.max(1, Math.ceil(all.length / size));
  const link = (to: number, rel: string): string => {
    const query = new URLSearchParams(incoming.query);
    query.set("page", String(to));
    return `<${incoming.origin}${incoming.path}?${query}>; rel="${rel}"`;
  };
  const links = page < last ? [link(page + 1, "next"), link(last, "last")] : [];
  const items = all.slice((page - 1) * size, page * size);
  return { status: 200, items, body: items, headers: links.length === 0 ? {} : { link: links.join(", ") } };
}
