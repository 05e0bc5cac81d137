/** What a job printed, without the time before each line, the marks of groups and sections, and the colours. */
export function plainLog(log: string): string {
  return (
    log
      .replaceAll(/^\uFEFF?\d{4}-\d\d-\d\dT[\d:.]+Z /gm, "")
      .replaceAll(/^##\[(?:group|endgroup)\]/gm, "")
      .replaceAll(/section_(?:start|end):\d+:[^\r\n]*\r?/g, "")
      // oxlint-disable-next-line no-control-regex
      .replaceAll(/\u001B\[[\d;]*[A-Za-z]/g, "")
      .trimEnd()
  );
}
