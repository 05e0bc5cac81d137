const MAX_PROSE = 12_000;

/** What an agent wrote before the JSON that ends its answer: a specification, a plan. Empty: nothing, or no such end can be seen. */
export function proseOf(text: string): string {
  const end = text.lastIndexOf("```json");
  if (end === -1) return "";
  const prose = text.slice(0, end).trim();
  return prose.length <= MAX_PROSE ? prose : `${prose.slice(0, MAX_PROSE).toWellFormed()}\n(cut here)`;
}
