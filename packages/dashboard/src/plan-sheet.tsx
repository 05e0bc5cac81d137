// Every action shows its plan first: what it changes, what stays, and how to undo it. Nothing happens before the user applies the plan.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Action, AllowedAction, ApplyRequest, ApplyResult, Plan, Problem } from "./api.ts";
import { Refused, post, problemOf } from "./client.ts";
import { Dialog } from "./dialog.tsx";
import { connection, refresh } from "./live.ts";
import { A, Command, Icon, IconButton, ProblemCard, Skeleton, Text, go, route, say } from "./parts.tsx";
import { NO_FILTER, runRoute } from "./router.ts";
import { createStore, newId, useStore } from "./store.ts";
import { mayRetry, refusalTitle } from "./words.ts";

const asked = createStore<Action | null>(null);
const result = createStore<Extract<ApplyResult, { readonly kind: "done" }> | null>(null);

/** Opens the sheet with the plan of an action. */
export function askPlan(action: Action): void {
  if (connection.get().kind === "live") asked.set(action);
  else say("The page is not connected.");
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
        complete: (as) => ({ ...action, as: as || null }),
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
  // A text that was refused can be changed.
  const [typed, setTyped] = useState<string | null>(null);
  useEffect(() => {
    setComplete(null);
    setTyped(null);
  }, [action]);
  if (action === null) return null;
  const close = (): void => asked.set(null);
  const question = questionOf(action);
  if (question === null || complete !== null)
    return (
      <ShowPlan
        action={complete ?? action}
        onBack={question === null ? null : () => setComplete(null)}
        onClose={close}
      />
    );
  return (
    <AskFirst
      question={question}
      text={typed ?? question.initial}
      onText={setTyped}
      onDone={setComplete}
      onClose={close}
    />
  );
}

function AskFirst(props: {
  readonly question: Question;
  readonly text: string;
  readonly onText: (text: string) => void;
  readonly onDone: (action: Action) => void;
  readonly onClose: () => void;
}): JSX.Element {
  const { question, text } = props;
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
            <input type="text" value={text} onInput={(event) => props.onText(event.currentTarget.value)} autofocus />
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

function ShowPlan(props: {
  readonly action: Action;
  /** null: the user typed nothing for it. */
  readonly onBack: (() => void) | null;
  readonly onClose: () => void;
}): JSX.Element {
  const { action, onBack, onClose } = props;
  const [plan, setPlan] = useState<Plan | null>(null);
  const [before, setBefore] = useState<Plan | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const cancel = useRef<HTMLButtonElement>(null);
  const old = useStore(connection).kind === "old";
  const key = useRef("");

  const [tries, setTries] = useState(0);
  useEffect(() => {
    let current = true;
    post<Plan>("/api/plans", action).then(
      (made) => current && setPlan(made),
      (error: unknown) => current && setProblem(problemOf(error)),
    );
    return () => {
      current = false;
    };
  }, [action, tries]);
  useEffect(() => cancel.current?.focus(), [plan === null]);

  const apply = async (): Promise<void> => {
    if (plan === null || busy || old) return;
    setBusy(true);
    setProblem(null);
    // A repeated request after a lost answer has the same key, so it is done once.
    key.current ||= newId();
    const answer = await send(plan, { digest: plan.digest, key: key.current });
    setBusy(false);
    switch (answer.kind) {
      case "done":
        result.set(answer);
        say(answer.text);
        if (plan.action.kind === "remove") leaveRun(plan.action.run);
        refresh();
        return onClose();
      case "failed":
        setProblem(answer.problem);
        if (answer.problem.code === "NO_SERVER") return;
        // This plan was used. Whether the action is still possible, only a new one can say.
        key.current = "";
        setBefore(null);
        return setPlan(null);
      case "changed":
        key.current = "";
        setBefore(plan);
        return setPlan(answer.plan);
    }
  };

  const title = plan?.title ?? (problem === null ? "Making the plan" : refusalTitle(action, problem));
  return (
    <Dialog
      label={title}
      class="plan"
      onClose={onClose}
      onKeyDown={(event) => {
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void apply();
      }}
    >
      <div class="sheet-body spaced" role="region" aria-label="Plan" tabIndex={0}>
        <h2>
          <Text>{title}</Text>
        </h2>
        {before === null ? null : (
          <p class="notice" role="alert">
            <Icon name="warning" /> The run changed since this plan was made. This is the new plan;{" "}
            {plan === null || hasSameLines(plan, before)
              ? "its text is the same, because only the content of its files differs."
              : "its changed lines are marked."}
          </p>
        )}
        {problem === null ? null : <ProblemCard problem={problem} />}
        {plan === null && problem === null ? <Skeleton /> : null}
        {plan === null ? null : <PlanLines plan={plan} before={before} />}
      </div>
      <div class="sheet-end">
        {plan === null ? null : <Command text={plan.command} />}
        <div class="sheet-buttons">
          <button type="button" ref={cancel} onClick={onClose}>
            {plan === null && problem !== null ? "Close" : "Cancel"}
          </button>
          {plan !== null || problem === null || onBack === null ? null : (
            <button type="button" class="primary" onClick={onBack}>
              Change it
            </button>
          )}
          {plan === null && problem !== null && mayRetry(problem) ? (
            <button
              type="button"
              onClick={() => {
                setProblem(null);
                setTries(tries + 1);
              }}
            >
              Try again
            </button>
          ) : null}
          {plan === null ? null : (
            <button
              type="button"
              class="primary"
              disabled={busy || old}
              onClick={() => void apply()}
              title="Ctrl Enter"
            >
              {busy ? "Working…" : plan.button}
            </button>
          )}
        </div>
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

function hasSameLines(plan: Plan, before: Plan): boolean {
  return plan.lines.every(({ title, texts }) => texts.every((text) => hasLine(before, title, text)));
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

/** The pages of a run that was removed are gone. */
function leaveRun(run: string): void {
  const here = route.get();
  if ("run" in here && here.run === run && here.page !== "inbox") go({ page: "runs", filter: NO_FILTER }, "replace");
}

/** What was done last, and its undo. */
export function ResultStrip(): JSX.Element | null {
  const done = useStore(result);
  const { undo = null, run = null } = done ?? {};
  if (done === null) return null;
  return (
    <div class="result" role="status">
      <Icon name="done" />
      <Text as="span">{done.text}</Text>
      {run === null ? null : (
        <A to={runRoute(run)} class="button">
          Open
        </A>
      )}
      {undo === null ? null : <Actions actions={[{ label: "Undo", action: undo, why: null }]} />}
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
            <Text>{label}</Text>…{why === null ? null : <Text class="why-not">{why}</Text>}
          </button>
        );
      })}
    </div>
  );
}
