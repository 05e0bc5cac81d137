/**
 * The text of the systemd user unit and of the launchd agent that run the worker, and the commands that enable and
 * disable them. Pure: no file is written and no program is started.
 */
import { join, resolve } from "node:path";
import { usageError } from "@holdfast/platform/error";
import { isInside } from "@holdfast/platform/files";

export interface ServiceInput {
  readonly kind: ServiceKind;
  /** Absolute paths of Node and of Holdfast's entry point. */
  readonly node: string;
  readonly entry: string;
  /** Of `holdfast worker`. */
  readonly flags: readonly string[];
  readonly home: string;
  /** `~/.config`, or what XDG_CONFIG_HOME names. */
  readonly configHome: string;
  readonly uid: number;
  readonly environment: Readonly<Record<string, string>>;
}

/** What runs the worker. */
export type ServiceKind = "systemd" | "launchd";

/** A program with its arguments; no shell interprets them. */
export type CommandWords = readonly string[];

export interface ServicePlan {
  readonly kind: ServiceKind;
  readonly path: string;
  readonly text: string;
  /** Starts the worker now and after each login or boot. */
  readonly enable: readonly CommandWords[];
  /** Starts the worker again, with the changed file. */
  readonly restart: readonly CommandWords[];
  /** Stops the worker. Must run before the file is removed. */
  readonly disable: readonly CommandWords[];
  /** After the file was removed. */
  readonly forget: readonly CommandWords[];
  /** Exit status 0: the worker starts after each login or boot. */
  readonly isEnabled: CommandWords;
}

/** Throws USAGE for a value that the file cannot hold. */
export function planService(input: ServiceInput): ServicePlan {
  const { kind } = input;
  const words = [input.node, input.entry, "worker", ...input.flags];
  for (const value of [...words, input.home, input.configHome, ...Object.values(input.environment)])
    refuseControl(value);
  switch (kind) {
    case "systemd": {
      if (/["'\\]/.test(input.node))
        throw usageError(
          `systemd cannot start ${JSON.stringify(input.node)}, because its path has a quote or a backslash`,
          "Install Node in another directory.",
        );
      const systemctl = (...args: readonly string[]): CommandWords => ["systemctl", "--user", ...args];
      return {
        kind,
        path: join(input.configHome, "systemd/user", UNIT),
        text: unitText(words, input.environment),
        enable: [systemctl("daemon-reload"), systemctl("enable", "--now", UNIT)],
        restart: [systemctl("daemon-reload"), systemctl("restart", UNIT)],
        disable: [systemctl("disable", "--now", UNIT)],
        forget: [systemctl("daemon-reload")],
        isEnabled: systemctl("is-enabled", "--quiet", UNIT),
      };
    }
    case "launchd": {
      const path = join(input.home, "Library/LaunchAgents", `${LABEL}.plist`);
      const domain = `gui/${input.uid}`;
      const load = ["launchctl", "bootstrap", domain, path];
      const unload = ["launchctl", "bootout", `${domain}/${LABEL}`];
      return {
        kind,
        path,
        text: plistText(words, input),
        enable: [load],
        restart: [unload, load],
        disable: [unload],
        forget: [],
        isEnabled: ["launchctl", "print", `${domain}/${LABEL}`],
      };
    }
  }
}

const UNIT = "holdfast.service";
const LABEL = "holdfast.worker";

/** A unit file has no escape for a line end, and XML none for most control characters. */
function refuseControl(value: string): void {
  if (!/\p{Cc}/u.test(value)) return;
  throw usageError(
    `A service cannot use ${JSON.stringify(value)}, because it has a control character`,
    "Move Holdfast or Node to another directory, or remove the entry from PATH or the flag.",
  );
}

/**
 * `mixed`: systemd sends SIGTERM to the worker only, and the worker to its runs, so that each agent is ended by its own
 * run. 143 is the worker's exit status after SIGTERM. Wrong settings (2) do not change by a restart.
 */
function unitText(words: readonly string[], environment: ServiceInput["environment"]): string {
  // ":" switches the expansion of $VARIABLE off, so only specifiers (%) and quotes need an escape.
  const [program = "", ...args] = words;
  const start = [`:${program}`, ...args].map(quoteForSystemd).join(" ");
  const variables = Object.entries(environment).map(
    ([name, value]) => `Environment=${quoteForSystemd(`${name}=${value}`)}`,
  );
  return `# Written by \`holdfast service install\`; \`holdfast service remove\` removes it.
[Unit]
Description=Holdfast worker

[Service]
Type=exec
ExecStart=${start}
${variables.join("\n")}
Restart=on-failure
RestartSec=30
RestartPreventExitStatus=2
SuccessExitStatus=143
KillMode=mixed
TimeoutStopSec=90

[Install]
WantedBy=default.target
`;
}

/** One word in double quotes, as systemd.syntax(7) and systemd.unit(5) define them. */
function quoteForSystemd(word: string): string {
  return `"${word.replaceAll("%", "%%").replaceAll(/["\\]/g, String.raw`\$&`)}"`;
}

function plistText(words: readonly string[], { environment, home }: ServiceInput): string {
  const text = (value: string): string => `<string>${escapeXml(value)}</string>`;
  const log = text(join(home, "Library/Logs/holdfast-worker.log"));
  const pairs = Object.entries(environment).map(([name, value]) => `    <key>${escapeXml(name)}</key>${text(value)}`);
  return `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- Written by "holdfast service install"; "holdfast service remove" removes it. -->
<plist version="1.0">
<dict>
  <key>Label</key>${text(LABEL)}
  <key>ProgramArguments</key>
  <array>
${words.map((word) => `    ${text(word)}`).join("\n")}
  </array>
  <key>EnvironmentVariables</key>
  <dict>
${pairs.join("\n")}
  </dict>
  <key>RunAtLoad</key><true/>
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key><false/>
  </dict>
  <key>ThrottleInterval</key><integer>30</integer>
  <key>ExitTimeOut</key><integer>90</integer>
  <key>StandardOutPath</key>${log}
  <key>StandardErrorPath</key>${log}
</dict>
</plist>
`;
}

function escapeXml(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;")
    .replaceAll("'", "&apos;");
}

/**
 * The variables that the service gets: where programs and settings are, and the language. No variable that can hold a
 * secret is among them; secrets are in the user's own `worker.env`.
 */
export function serviceVariables(
  env: Readonly<Record<string, string | undefined>>,
  repository: string,
): Readonly<Record<string, string>> {
  const path = servicePath(env["PATH"] ?? "", repository);
  const others = VARIABLES.flatMap((name) => {
    const value = env[name] ?? "";
    return value === "" ? [] : [[name, value] as const];
  });
  return Object.fromEntries([["PATH", path] as const, ...others]);
}

const VARIABLES: readonly string[] = [
  "LANG",
  "LC_ALL",
  "LC_CTYPE",
  "TZ",
  "XDG_CONFIG_HOME",
  "XDG_STATE_HOME",
  "XDG_DATA_HOME",
  "XDG_CACHE_HOME",
  "CLAUDE_CONFIG_DIR",
  "CODEX_HOME",
  "GH_CONFIG_DIR",
  "NODE_EXTRA_CA_CERTS",
  "SSL_CERT_FILE",
  "SSL_CERT_DIR",
];

/**
 * Without relative entries, which would depend on the directory of a run, and without entries inside the repository
 * (`npx` adds `node_modules/.bin`): its files would become programs of all other repositories.
 */
function servicePath(path: string, repository: string): string {
  const entries = [...new Set(path.split(":"))];
  return entries.filter((entry) => entry.startsWith("/") && !isInside(resolve(entry), repository)).join(":");
}

/** The part of a service's file that names Node, Holdfast and the command; "" if there is none. */
export function programOf(text: string): string {
  return /^ExecStart=.*$|<array>[^]*?<\/array>/m.exec(text)?.[0] ?? "";
}
