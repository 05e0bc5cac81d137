import { existsSync } from "node:fs";
import { HoldfastError } from "../../core/error.ts";

/** The same object, each of whose methods rejects with HoldfastError only. All of them must be async. */
export function guardMethods<T extends object>(inner: T, place: string): T {
  return new Proxy(inner, {
    get(target, name): unknown {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== "function") return value;
      return (...args: readonly unknown[]) => tellFailures(place, async () => Reflect.apply(value, target, args));
    },
  });
}

/** Here what the system or Node itself throws becomes an error that says what to do; what is one already passes. */
export async function tellFailures<T>(place: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw error instanceof HoldfastError ? error : describeFailure(error, place);
  }
}

function describeFailure(error: unknown, place: string): HoldfastError {
  const why = error instanceof Error ? error.message : String(error);
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  const path = error instanceof Error && "path" in error && typeof error.path === "string" ? error.path : place;
  const facts = { data: { path, system: code }, cause: error };
  if (isSystemError(error) && !existsSync(place)) return placeGone(place, error);
  switch (code) {
    case "ENOSPC":
    case "EDQUOT":
      return new HoldfastError({
        code: "DISK_FULL",
        message: `no space is left for ${path}: ${why}`,
        hint: "Free some space and run the command again; nothing was lost.",
        retry: "later",
        ...facts,
      });
    case "EROFS":
    case "EACCES":
    case "EPERM":
      return new HoldfastError({
        code: "IO_FAILED",
        message: `${path} may not be read or written: ${why}`,
        hint: `Check who owns ${path}, its permissions, and whether its file system is mounted read-only.`,
        retry: "ask",
        ...facts,
      });
    case "ERR_INVALID_ARG_VALUE":
      return new HoldfastError({ code: "USAGE", message: `an argument cannot be used here: ${why}`, ...facts });
    default:
      return isSystemError(error)
        ? new HoldfastError({
            code: "IO_FAILED",
            message: `the system failed at ${path}: ${why}`,
            hint: "Look at the system log, the disk may be failing; then run the command again.",
            retry: "ask",
            ...facts,
          })
        : new HoldfastError({
            code: "INTERNAL",
            message: `unexpected failure in ${place}: ${why}`,
            hint: "This is a defect; please report it with the message above.",
            ...facts,
          });
  }
}

export function placeGone(place: string, cause: unknown): HoldfastError {
  return new HoldfastError({
    code: "WORKSPACE_MISSING",
    message: `${place} is gone`,
    hint: "While its repository is there, so are its snapshots: make the worktree again and restore the last checkpoint into it.",
    cause,
  });
}

function isSystemError(error: unknown): boolean {
  return error instanceof Error && "syscall" in error;
}
