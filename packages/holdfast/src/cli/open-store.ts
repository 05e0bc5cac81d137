import type { Holdfast, WorkParts } from "../app.ts";
import { openParamsOf } from "../config/effective-config.ts";
import type { EffectiveConfig, Origin } from "../config/effective-config.ts";
import { HoldfastError } from "../core/error.ts";
import type { Consent, ReadSettings } from "./consent.ts";
import { WAIT_MS } from "./wait-for-run.ts";

export async function openStore(params: {
  readonly cwd: string;
  readonly create: boolean;
  readonly pretend: boolean;
  readonly readOnly: boolean;
  readonly settings: ReadSettings;
  readonly refuseCall: Consent["refuseCall"];
}): Promise<Holdfast> {
  const { config, broken } = params.settings;
  const { openHoldfast } = await import("../app.ts");
  const { refuseCall } = params;
  const decorate = (parts: WorkParts): WorkParts => ({ ...parts, refuseCall });
  const open = { cwd: params.cwd, leaseWaitMs: WAIT_MS, ...openParamsOf(config), parts: decorate };
  // Where there is no store: the file that does not parse may well be the one that says where it is.
  try {
    return await openHoldfast({ ...open, create: params.create, readOnly: params.readOnly });
  } catch (error) {
    if (!(error instanceof HoldfastError)) throw error;
    if (error.code === "STORE_MISSING" && error.data["elsewhere"] === true) throw broken ?? error;
    if (error.code !== "STORE_ABSENT") throw error;
    if (params.pretend) return await openHoldfast({ ...open, pretend: true });
    throw broken ?? absent(error, config);
  }
}

function absent(cause: HoldfastError, config: EffectiveConfig): HoldfastError {
  const location = config.settings.store ?? cause.data["location"];
  const place = typeof location === "string" ? location : "the git directory";
  const origin = config.entries.find(({ key }) => key === "store")?.origin ?? { kind: "default" };
  const named = namedBy(origin, config.path);
  if (named === null) {
    // For the store it is a wrong path perhaps; for somebody at a prompt it is the beginning.
    return new HoldfastError({
      code: "STORE_ABSENT",
      message: `Nothing is saved here yet (no store in ${place})`,
      hint: "Save the first checkpoint with `holdfast checkpoint`.",
      data: cause.data,
      cause,
    });
  }
  return new HoldfastError({
    code: "STORE_ABSENT",
    message: `There is no store in ${place}, which ${named} names`,
    hint: "Check the path. `holdfast checkpoint` makes a store there.",
    data: { ...cause.data, location: place, named: true },
    cause,
  });
}

function namedBy(origin: Origin, path: string | null): string | null {
  switch (origin.kind) {
    case "default":
      return null;
    case "file":
      return path ?? "the config file";
    case "environment":
      return origin.variable;
    case "flag":
      return origin.flag;
  }
}
