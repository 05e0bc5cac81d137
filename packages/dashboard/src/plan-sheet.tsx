// Every action shows its plan first: what it changes, what stays, and how to undo it. Nothing happens before the user applies the plan.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Action, AllowedAction, ApplyRequest, ApplyResult, Plan, Problem } from "./api.ts";
import { Refused, post, problemOf } from "./client.ts";
import { Dialog } from "./dialog.tsx";
import { connection, refresh } from "./live.ts";
import { Command, Icon, IconButton, ProblemCard, Skeleton, Text, say } from "./parts.tsx";
import { createStore, useStore } from "./store.ts";

const asked = createStore<Action | null>(null);
const result = createStore<Extract<ApplyResult, { readonly kind: "done" }> | null>(null);

/** Opens the sheet with the plan of an action. */
export function askPlan(action: Action): void {
  if (connection.get().kind === "live") asked.set(action);
}

/** What an action still needs from the user before it has a plan. */
interface Question {
  readonly title: string;
  readonly label: string;
  readonly initial: string;
  readonly required: boolean;
  readonly complete: (text: string) => Action | null;
}

function questionOf(action: Action): Question | null {
  switch (action.kind) {
    case "tag":
      if (action.name !== "") return null;
      return {
        title: `Tag checkpoint ${action.sequence}`,
        label: "Name of the tag",
        initial: "",
        required: true,
        complete: (name) => ({ ...action, name }),
      };
    case "fork":
      if (action.as !== null) return null;
      return {
        title: `Fork from checkpoint ${action.sequence}`,
        label: "Id of the new run (empty: Holdfast chooses one)",
        initial: "",
        required: false,
        complete: (as) => ({ ...action, as }),
      };
    case "raise": {
      const scale = action.limit === "microUsd" ? 1e6 : action.limit === "milliseconds" ? 60_000 : 1;
      const unit = { microUsd: "US dollars", milliseconds: "minutes", tokens: "tokens", iterations: "iterations" };
      return {
        title: "Raise a limit",
        label: `New limit in ${unit[action.limit]}`,
        initial: String(action.to / scale),
        required: true,
        complete: (text) => {
          const to = Math.round(Number(text) * scale);
          return Number.isSafeInteger(to) && to > 0 ? { ...action, to } : null;
        },
      };
    }
    default:
      return null;
  }
}

export function PlanSheet(): JSX.Element | null {
  const action = useStore(asked);
  const [complete, setComplete] = useState<Action | null>(null);
  useEffect(() => setComplete(null), [action]);
  if (action === null) return null;
  const close = (): void => asked.set(null);
  const question = complete === null ? questionOf(action) : null;
  if (question !== null) return <AskFirst question={question} onDone={setComplete} onClose={close} />;
  return <ShowPlan action={withoutEmptyName(complete ?? action)} onClose={close} />;
}

function withoutEmptyName(action: Action): Action {
  return action.kind === "fork" && action.as === "" ? { ...action, as: null } : action;
}

function AskFirst(props: {
  readonly question: Question;
  readonly onDone: (action: Action) => void;
  readonly onClose: () => void;
}): JSX.Element {
  const { question } = props;
  const [text, setText] = useState(question.initial);
  const done = question.required && text.trim() === "" ? null : question.complete(text.trim());
  return (
    <Dialog label={question.title} onClose={props.onClose} class="plan">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (done !== null) props.onDone(done);
        }}
      >
        <div class="sheet-body spaced">
          <h2>{question.title}</h2>
          <label class="field">
            {question.label}
            <input type="text" value={text} onInput={(event) => setText(event.currentTarget.value)} autofocus />
          </label>
        </div>
        <div class="sheet-end">
          <button type="button" class="push" onClick={props.onClose}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={done === null}>
            Show the plan
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function ShowPlan({ action, onClose }: { readonly action: Action; readonly onClose: () => void }): JSX.Element {
  const [plan, setPlan] = useState<Plan | null>(null);
  const [before, setBefore] = useState<Plan | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const cancel = useRef<HTMLButtonElement>(null);
  const old = useStore(connection).kind === "old";
  const key = useRef("");

  useEffect(() => {
    let current = true;
    post<Plan>("/api/plans", action).then(
      (made) => current && setPlan(made),
      (error: unknown) => current && setProblem(problemOf(error)),
    );
    return () => {
      current = false;
    };
  }, [action]);
  useEffect(() => cancel.current?.focus(), [plan === null]);

  const apply = async (): Promise<void> => {
    if (plan === null || busy || old) return;
    setBusy(true);
    setProblem(null);
    // A repeated request after a lost answer has the same key, so it is done once.
    key.current ||= crypto.randomUUID();
    const answer = await send(plan, { digest: plan.digest, key: key.current });
    setBusy(false);
    switch (answer.kind) {
      case "done":
        result.set(answer);
        say(answer.text);
        refresh();
        return onClose();
      case "failed":
        return setProblem(answer.problem);
      case "changed":
        key.current = "";
        setBefore(plan);
        return setPlan(answer.plan);
    }
  };

  const title = plan?.title ?? "Making the plan";
  return (
    <Dialog
      label={title}
      class="plan"
      onClose={onClose}
      onKeyDown={(event) => {
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void apply();
      }}
    >
      <div class="sheet-body spaced">
        <h2>
          <Text>{title}</Text>
        </h2>
        {before === null ? null : (
          <p class="notice" role="alert">
            <Icon name="warning" /> The run changed since this plan was made. This is the new plan; its changed lines
            are marked.
          </p>
        )}
        {problem === null ? null : <ProblemCard problem={problem} />}
        {plan === null && problem === null ? <Skeleton /> : null}
        {plan === null ? null : <PlanLines plan={plan} before={before} />}
      </div>
      <div class="sheet-end">
        {plan === null ? null : <Command text={plan.command} />}
        <button type="button" class="push" ref={cancel} onClick={onClose}>
          Cancel
        </button>
        {plan === null ? null : (
          <button type="button" class="primary" disabled={busy || old} onClick={() => void apply()} title="Ctrl Enter">
            {busy ? "Working…" : plan.button}
          </button>
        )}
      </div>
    </Dialog>
  );
}

function PlanLines({ plan, before }: { readonly plan: Plan; readonly before: Plan | null }): JSX.Element {
  return (
    <dl class="plan-lines">
      {plan.lines.map(({ title, texts, warns }) => (
        <div key={title} class={warns ? "warns" : ""}>
          <dt>
            {warns ? <Icon name="warning" /> : null} <Text>{title}</Text>
          </dt>
          <dd>
            {texts.map((text, index) => (
              <p key={index} class={before !== null && !hasLine(before, title, text) ? "new-line" : ""}>
                <Text>{text}</Text>
              </p>
            ))}
          </dd>
        </div>
      ))}
      <div>
        <dt>Undo</dt>
        <dd>{plan.undo === null ? "This cannot be undone." : <Text>{plan.undo}</Text>}</dd>
      </div>
    </dl>
  );
}

function hasLine(plan: Plan, title: string, text: string): boolean {
  return plan.lines.some((line) => line.title === title && line.texts.includes(text));
}

async function send(plan: Plan, body: ApplyRequest): Promise<ApplyResult> {
  try {
    return await post<ApplyResult>(`/api/plans/${encodeURIComponent(plan.id)}/apply`, body);
  } catch (error) {
    const changed = error instanceof Refused && error.status === 409 ? planIn(error.body) : null;
    return changed === null ? { kind: "failed", problem: problemOf(error) } : { kind: "changed", plan: changed };
  }
}

function planIn(body: unknown): Plan | null {
  const has = typeof body === "object" && body !== null && "plan" in body;
  return has ? (body.plan as Plan) : null;
}

/** What was done last, and its undo. */
export function ResultStrip(): JSX.Element | null {
  const done = useStore(result);
  const { undo = null } = done ?? {};
  if (done === null) return null;
  return (
    <div class="result" role="status">
      <Icon name="done" />
      <Text as="span">{done.text}</Text>
      {undo === null ? null : (
        <button type="button" onClick={() => askPlan(undo)}>
          <Icon name="undo" /> Undo…
        </button>
      )}
      <IconButton icon="failed" label="Close" onClick={() => result.set(null)} />
    </div>
  );
}

/** Buttons of what may be done. One that is not possible now says why. */
export function Actions(props: { readonly actions: readonly AllowedAction[]; readonly class?: string }): JSX.Element {
  const old = useStore(connection).kind === "old";
  return (
    <div class={`buttons ${props.class ?? ""}`}>
      {props.actions.map(({ label, action, why }) => {
        const reason = old ? "The page is not connected." : why;
        return (
          <button
            key={label}
            type="button"
            aria-disabled={reason !== null}
            title={reason ?? undefined}
            onClick={() => (reason === null ? askPlan(action) : say(reason))}
          >
            <Text>{label}</Text>…
          </button>
        );
      })}
    </div>
  );
}
