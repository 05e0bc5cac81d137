import type { Holdfast, Mirror } from "../app.ts";
import type { Shell } from "./command.ts";
import { escapeText } from "./output/escape-text.ts";
import { paint } from "./output/page.ts";

export interface RunMirror {
  /** A checkpoint was saved: brought over soon, never twice at once. */
  follow(run: string): void;
  /** Waits until all that was saved is brought over. */
  close(): Promise<void>;
}

/** What `mirror:` in the config asks for. It serves another tool: when it fails that is told, and the run goes on. */
export async function createRunMirror(shell: Shell, holdfast: Holdfast): Promise<RunMirror> {
  const { format, directory } = (await shell.config()).settings.work.mirror;
  if (format === null) return { follow: () => undefined, close: async () => undefined };
  let mirror: Promise<Pick<Mirror, "catchUp">> | undefined;
  let work: Promise<void> = Promise.resolve();
  let waiting = false;
  let told = false;
  const catchUp = async (run: string): Promise<void> => {
    waiting = false;
    try {
      mirror ??= holdfast.foreign.mirror({ run, to: format, ...(directory === null ? {} : { directory }) });
      await (await mirror).catchUp();
    } catch (error) {
      mirror = undefined;
      const why = escapeText(error instanceof Error ? error.message : String(error));
      if (!told) shell.say(`${paint(shell.talk, "yellow", "warning:")} The ${format} mirror is behind: ${why}`);
      told = true;
    }
  };
  return {
    follow(run) {
      if (waiting) return;
      waiting = true;
      work = work.then(() => catchUp(run));
    },
    close: () => work,
  };
}
