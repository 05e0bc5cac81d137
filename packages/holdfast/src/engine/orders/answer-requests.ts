import type { CheckpointRequest, Requests } from "../../ports/requests.ts";
import { reasonOf } from "../reason-of.ts";
import type { RunSession } from "../conduct/run-session.ts";
import { mayAsk, saveFromOutside } from "../stage/save-unasked.ts";

/** Journal entry in the same commit as the checkpoint that answers a request: by it the one who asked knows. */
export const ANSWERED = "x.requested";

/** While this process carries the run, whoever asks gets a checkpoint. Nothing that goes wrong here is the run's trouble. */
export function answerRequests(writer: RunSession, epoch: number): AsyncDisposable {
  const { requests } = writer.parts;
  if (requests === null) return { [Symbol.asyncDispose]: () => Promise.resolve() };
  const tell = (error: unknown): void =>
    writer.tell({ kind: "note", text: `A checkpoint that was asked for failed: ${reasonOf(error)}` });
  let looking: Promise<void> | undefined = requests.sweep({ run: writer.run.id, epoch }).catch(tell).finally(rest);
  function rest(): void {
    looking = undefined;
  }
  const timer = setInterval(() => {
    if (mayAsk(writer)) looking ??= answerAll(writer, requests, epoch).catch(tell).finally(rest);
  }, LOOK_MS);
  timer.unref();
  return {
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      await looking;
    },
  };
}

const LOOK_MS = 200;

async function answerAll(writer: RunSession, requests: Requests, epoch: number): Promise<void> {
  for (const request of await requests.waiting(writer.run.id)) {
    if (request.epoch !== epoch) await requests.withdraw(request);
    else if (mayAsk(writer) && (await requests.take(request))) await answer(writer, requests, request);
  }
}

async function answer(writer: RunSession, requests: Requests, request: CheckpointRequest): Promise<void> {
  const { id, name } = request;
  try {
    await saveFromOutside(writer, {
      trigger: "manual",
      ...(name === null ? {} : { name }),
      prepare: ({ sequence }) => [{ kind: ANSWERED, body: { request: id, sequence } }],
    });
  } finally {
    await requests.finish(request);
  }
}
