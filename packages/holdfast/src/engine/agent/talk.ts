import type { ConversationPlane } from "../../core/checkpoint/checkpoint.ts";
import { pureSha256 } from "../../core/sha256.ts";
import type { Agent, AgentEvent, AgentTranscript } from "../../ports/agent.ts";
import { reasonOf } from "../reason-of.ts";

/** What is said in one call, as checkpoints keep it: the agent's own record where it has one, else the end of what it printed. */
export class Talk {
  readonly #agent: Agent;
  readonly #cwd: string;
  readonly #tell: (problem: string) => void;
  #session: string | null;
  #lastMessage: string | null = null;
  #lines: string[] = [];
  #length = 0;

  constructor(
    agent: Agent,
    params: {
      readonly cwd: string;
      readonly session: string | null;
      readonly tell: (problem: string) => void;
    },
  ) {
    this.#agent = agent;
    this.#cwd = params.cwd;
    this.#tell = params.tell;
    this.#session = params.session;
  }

  hear(event: AgentEvent): void {
    if (event.kind === "session") this.#session = event.id;
    if (event.kind === "message") this.#lastMessage = event.id;
    if (event.kind !== "raw" || this.#agent.sessions !== null) return;
    this.#lines.push(event.line);
    this.#length += event.line.length + 1;
    // Dropped in bulk: each line is moved once or twice, not once a line.
    if (this.#length > 2 * MAX_CHARACTERS) this.#printed();
  }

  /** `session`: as the call's outcome tells it, once there is one. A record that cannot be read costs the copy, not the call. */
  async plane(session: string | null = this.#session): Promise<ConversationPlane> {
    const { name, sessions } = this.#agent;
    const said =
      sessions === null
        ? this.#heard()
        : session === null
          ? null
          : await sessions.read({ session, cwd: this.#cwd }).catch((error: unknown) => {
              this.#tell(`The conversation of ${name} is not in the checkpoint: ${reasonOf(error)}`);
              return null;
            });
    return {
      agent: name,
      session,
      transcript: said === null ? null : { digest: pureSha256(said.text), bytes: bytesOf(said.text), text: said.text },
      lastMessage: said?.lastMessage ?? this.#lastMessage,
    };
  }

  #heard(): AgentTranscript | null {
    const text = this.#printed();
    return text === "" ? null : { text: `${text}\n`, lastMessage: this.#lastMessage };
  }

  #printed(): string {
    const text = this.#lines.join("\n").slice(-MAX_CHARACTERS).toWellFormed();
    this.#lines = text === "" ? [] : [text];
    this.#length = text.length;
    return text;
  }
}

const MAX_CHARACTERS = 1_000_000;

function bytesOf(text: string): number {
  return new TextEncoder().encode(text).length;
}
