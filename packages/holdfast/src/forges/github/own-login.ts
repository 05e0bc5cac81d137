import * as z from "zod/mini";
import { HoldfastError } from "../../core/error.ts";
import type { Api } from "../api.ts";

/** Who we are, asked once; null: a login without a user, such as that of an app. A failure is not remembered. */
export function rememberLogin(api: Api): () => Promise<string | null> {
  let known: Promise<string | null> | undefined;
  return () => {
    known ??= ownLogin(api).catch((error: unknown) => {
      known = undefined;
      throw error;
    });
    return known;
  };
}

async function ownLogin(api: Api): Promise<string | null> {
  try {
    return (await api.read("user", z.object({ login: z.string() })))?.login ?? null;
  } catch (error) {
    // "Resource not accessible by integration": whether we may see the repository is for the next request to say.
    if (error instanceof HoldfastError && error.code === "FORGE_DENIED") return null;
    throw error;
  }
}
