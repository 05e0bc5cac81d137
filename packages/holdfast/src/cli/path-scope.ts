/** Is the path one of those asked for, or below one? No scope: all are. Both as the engine has them, from the root. */
export function inScope(path: string, scope: readonly string[] | null): boolean {
  const bare = path.replace(/\/$/, "");
  return scope === null || scope.some((asked) => asked === "." || bare === asked || bare.startsWith(`${asked}/`));
}
