// The timeline of a run. One list in the document: bars on a folded axis where there is room, a story in sentences on a phone and for a screen
// reader.
import type { JSX } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
import type { CheckpointSummary } from "@holdfast/core/checkpoint";
import type { Mark, Span, Timeline } from "./api.ts";
import { useKeys } from "./keys.tsx";
import { A, Icon, type IconName, Text, stepOf } from "./parts.tsx";
import { SpanFacts } from "./report-body.tsx";
import { checkpointRoute } from "./router.ts";
import { useNow } from "./store.ts";
import {
  type Axis,
  type Lane,
  type View,
  WHOLE,
  axisOf,
  barsOf,
  curvePoints,
  lanesOf,
  leftByRestores,
  lengthOf,
  stagger,
  storyOf,
  workEnd,
  zoom,
  zoomAxis,
} from "./timeline.ts";
import { type Tone, clock, duration, money, plural, scoreWord, short, stageWord } from "./words.ts";

/** A span that is not over has the colour of its timeline: the status of the run. */
const TONES = { done: "done", failed: "failed", interrupted: "crashed", open: "open" } as const;
const MARK_ICONS: Readonly<Record<Mark["kind"] | "stage" | "wait", IconName>> = {
  checkpoint: "saved",
  crash: "crashed",
  restore: "restore",
  undo: "undo",
  answer: "answer",
  tag: "tag",
  fork: "fork",
  effect: "effect",
  stage: "done",
  wait: "waiting",
};

/** A phone shows this much of the story at first, so that the tabs are near. */
const MOST_ITEMS = 40;

interface Props {
  readonly run: string;
  readonly timeline: Timeline;
  readonly checkpoints: readonly CheckpointSummary[];
  readonly live: boolean;
  /** The status of the run, for spans that are not over. */
  readonly tone: Tone;
  /** A phone leaves the story out: the user came for a tab. */
  readonly brief: boolean;
  /** The checkpoint that the keys chose. */
  readonly selected: number | null;
  /** The two checkpoints of the handles, 0 for the start of the run; null: there are fewer than two. */
  readonly handles: readonly [number, number] | null;
  readonly onHandles: (handles: readonly [number, number]) => void;
}

export function TimelineView(props: Props): JSX.Element {
  const { timeline, run, live } = props;
  const now = useNow(live ? 1000 : 60_000);
  const end = live ? now : workEnd(timeline);
  const whole = useMemo(() => axisOf(live ? timeline : { ...timeline, to: timeline.from }, end), [timeline, end]);
  const [view, setView] = useState<View>(WHOLE);
  const axis = useMemo(() => zoomAxis(whole, view), [whole, view]);
  const left = useMemo(() => leftByRestores(timeline.marks), [timeline]);
  const box = useRef<HTMLDivElement>(null);
  /** Where the pointer is, from 0 to 1. */
  const pointer = useRef(0.5);
  const follow = ({ clientX }: MouseEvent): void => {
    const plot = box.current?.querySelector(".gaps")?.getBoundingClientRect();
    if (plot !== undefined) pointer.current = Math.min(1, Math.max(0, (clientX - plot.left) / plot.width));
  };
  const zoomBy = (factor: number): void => setView((before) => zoom(before, factor, pointer.current));
  const lanes = useMemo(() => lanesOf(timeline.spans), [timeline]);
  const story = useMemo(() => storyOf(timeline), [timeline]);
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const [all, setAll] = useState(false);
  useKeys({
    e: () => setOpen(new Set(lanes.map(({ id }) => id))),
    w: () => setOpen(new Set()),
    "+": () => zoomBy(0.5),
    "=": () => zoomBy(0.5),
    "-": () => zoomBy(2),
    "0": () => setView(WHOLE),
  });
  const laneOf = new Map(lanes.map((lane) => [lane.spans[0]?.id ?? "", lane]));
  const crashes = timeline.marks.filter(({ kind }) => kind === "crash");
  const toggle = (id: string): void => {
    const next = new Set(open);
    if (!next.delete(id)) next.add(id);
    setOpen(next);
  };
  const shown = all ? story : story.slice(-MOST_ITEMS);
  return (
    <section
      ref={box}
      class={`timeline tone-${props.tone} ${props.brief ? "timeline-brief" : ""} ${view === WHOLE ? "" : "zoomed"}`}
      aria-label="Timeline"
      onPointerMove={follow}
      onWheel={(event) => {
        if (!event.ctrlKey) return;
        event.preventDefault();
        zoomBy(event.deltaY > 0 ? 1.25 : 0.8);
      }}
    >
      <div class="axis" aria-hidden="true">
        <svg class="plot">
          {axis.ticks.map(({ x, text }) => (
            <text key={text + x} class="tick" x={`${x}%`} y="11">
              {text}
            </text>
          ))}
        </svg>
      </div>
      <div class={axis.segments.some(({ kind }) => kind === "gap") ? "lanes lanes-idle" : "lanes"}>
        <svg class="plot gaps" aria-hidden="true">
          <Patterns />
          {axis.segments.map(({ kind, x0, x1, text, from }) =>
            kind === "gap" ? (
              <g key={from}>
                <rect class="gap" x={`${x0}%`} width={`${x1 - x0}%`} height="100%" />
                <title>{text}</title>
                <text class="gap-text" y="2">
                  {gapLines(text).map((line) => (
                    <tspan key={line} x={`${(x0 + x1) / 2}%`} dy="13">
                      {line}
                    </tspan>
                  ))}
                </text>
              </g>
            ) : null,
          )}
        </svg>
        <ol class="story">
          {story.length > shown.length ? (
            <li class="story-more">
              <button type="button" onClick={() => setAll(true)}>
                Show {story.length - shown.length} earlier
              </button>
            </li>
          ) : null}
          {story.map((item, index) => {
            const lane = item.span === null ? undefined : laneOf.get(item.span.id);
            const early = index < story.length - shown.length;
            if (lane === undefined && early) return null;
            const tone = item.result === null ? "" : `tone-${TONES[item.result]}`;
            const result = item.result === "open" ? props.tone : item.result === null ? null : TONES[item.result];
            const icon = result !== null && item.kind === "stage" ? result : MARK_ICONS[item.kind];
            return (
              <li key={item.key} class={lane === undefined ? "point" : "lane"} data-kind={item.kind}>
                {lane === undefined ? null : (
                  <LaneBars
                    lane={lane}
                    axis={axis}
                    gaps={timeline.gaps}
                    end={end}
                    open={open.has(lane.id)}
                    onToggle={() => toggle(lane.id)}
                    crashes={crashes}
                  />
                )}
                <span class="sentence">
                  <time class="meta num" dateTime={item.at}>
                    {clock(item.at)}
                  </time>
                  <span class={`sentence-icon kind-${item.kind} ${tone}`}>
                    {item.kind === "checkpoint" ? <span class="dot num">{item.sequence}</span> : <Icon name={icon} />}
                  </span>
                  <span class="sentence-text">
                    {item.kind === "checkpoint" && item.sequence !== null ? (
                      <A to={checkpointRoute(run, item.sequence)}>
                        <span class="sr-only">checkpoint {item.sequence}: </span>
                        <Text>{item.text}</Text>
                      </A>
                    ) : (
                      <Text>{item.text}</Text>
                    )}
                    <SpanFacts span={item.span} gaps={timeline.gaps} end={end} />
                  </span>
                </span>
              </li>
            );
          })}
        </ol>
        <div class="left-box" aria-hidden="true">
          {left.map(({ from, to }) => (
            <span
              key={from + to}
              class="left"
              style={{ left: `${axis.x(from)}%`, width: `${axis.x(to) - axis.x(from)}%` }}
            />
          ))}
        </div>
        <Marks
          title="effects"
          axis={axis}
          marks={timeline.marks.filter(({ kind }) => /^(?:effect|undo)$/.test(kind))}
        />
        <Marks
          title="you"
          axis={axis}
          marks={timeline.marks.filter(({ kind }) => /^(?:answer|restore|fork)$/.test(kind))}
        />
        {curves(timeline).map((curve) => (
          <Curve key={curve.title} axis={axis} {...curve} />
        ))}
        <Checkpoints {...props} axis={axis} />
      </div>
      {timeline.omitted === 0 ? null : (
        <p class="meta">
          The timeline leaves out {plural(timeline.omitted, "short step")}. The journal has all of them.
        </p>
      )}
    </section>
  );
}

interface CurveProps {
  readonly title: string;
  readonly points: readonly { readonly at: string; readonly value: number }[];
  readonly word: (value: number) => string;
}

function curves({ curves: { scores, spent } }: Timeline): readonly CurveProps[] {
  const of = (key: "microUsd" | "tokens"): CurveProps["points"] =>
    spent.flatMap((one) => (one[key] === null ? [] : [{ at: one.at, value: one[key] }]));
  return [
    { title: "score", points: scores.map(({ at, score }) => ({ at, value: score })), word: scoreWord },
    { title: "cost", points: of("microUsd"), word: money },
    { title: "tokens", points: of("tokens"), word: short },
  ];
}

/** The text of a gap in short lines: its band is narrow. */
function gapLines(text: string): readonly string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + word.length < 11) lines.splice(-1, 1, `${last} ${word}`);
    else lines.push(word);
  }
  return lines.slice(0, 5);
}

/** Fills that differ without colour. */
function Patterns(): JSX.Element {
  return (
    <defs>
      <pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
        <rect class="hatch-line" width="2" height="6" />
      </pattern>
    </defs>
  );
}

function LaneBars(props: {
  readonly lane: Lane;
  readonly axis: Axis;
  readonly gaps: Timeline["gaps"];
  readonly end: number;
  readonly open: boolean;
  readonly onToggle: () => void;
  readonly crashes: readonly Mark[];
}): JSX.Element {
  const { lane, axis, gaps, end, open } = props;
  const first = lane.spans[0];
  const last = lane.spans.at(-1);
  const from = Date.parse(first?.startedAt ?? "");
  const to = last?.endedAt == null ? end : Date.parse(last.endedAt);
  const crashes = props.crashes.filter(({ at }) => Date.parse(at) >= from && Date.parse(at) < to);
  const rows = [...Map.groupBy(lane.parts, ({ name }) => name)].slice(0, 30);
  return (
    <div class="lane-bars">
      <button
        type="button"
        class="lane-name"
        aria-expanded={open}
        disabled={rows.length === 0}
        onClick={props.onToggle}
        tabIndex={-1}
        aria-hidden="true"
      >
        <span>
          <Text>{lane.title}</Text>
        </span>
        {last?.score == null ? null : <span class="num">{scoreWord(last.score)}</span>}
      </button>
      <svg class="plot" aria-hidden="true">
        <Bars spans={lane.spans} axis={axis} gaps={gaps} end={end} top={4} height={14} />
        {crashes.map(({ entry, at, text }) => (
          <svg key={entry} x={`${axis.x(at)}%`} y="4" class="crash tone-crashed" overflow="visible">
            <title>{text}</title>
            <path class="crash-edge" d="M-4 1l8 12M4 1l-8 12" />
            <path d="M-4 1l8 12M4 1l-8 12" />
          </svg>
        ))}
      </svg>
      {open
        ? rows.map(([name, parts]) => (
            <div key={name} class="lane-part" aria-hidden="true">
              <span class="lane-part-name">
                <Text>{parts.length === 1 ? name : `${name} ×${parts.length}`}</Text>
              </span>
              <svg class="plot">
                <Bars spans={parts} axis={axis} gaps={gaps} end={end} top={6} height={8} />
              </svg>
            </div>
          ))
        : null}
    </div>
  );
}

function Bars(props: {
  readonly spans: readonly Span[];
  readonly axis: Axis;
  readonly gaps: Timeline["gaps"];
  readonly end: number;
  readonly top: number;
  readonly height: number;
}): JSX.Element {
  const { axis, end, top, height } = props;
  return (
    <>
      {barsOf(props.spans, axis, end).map(({ span, count, x0, x1 }) => {
        const { id, result, name, text } = span;
        const box = { x: `${x0}%`, y: top, width: `${Math.max(0.15, x1 - x0)}%`, height };
        return (
          <g key={id} class={`bar-${result} tone-${TONES[result]}`} data-result={result}>
            <title>{count > 1 ? `${name} ×${count}` : `${text} (${duration(lengthOf(span, props.gaps, end))})`}</title>
            <rect class="span" {...box} rx="2" />
            {result === "interrupted" ? <rect {...box} fill="url(#hatch)" /> : null}
            {result === "failed" ? (
              <svg x={`${x1}%`} y={top + height / 2} class="end-mark" overflow="visible">
                <path d="M4 -3l6 6M10 -3l-6 6" />
              </svg>
            ) : null}
            {result === "open" ? <rect class="edge" x={`${x1}%`} y={top - 2} width="2" height={height + 4} /> : null}
          </g>
        );
      })}
    </>
  );
}

function Curve(props: CurveProps & { readonly axis: Axis }): JSX.Element | null {
  const { title, axis, points, word } = props;
  const last = points.at(-1);
  if (last === undefined || points.every(({ value }) => value === 0)) return null;
  return (
    <div class="curve" aria-hidden="true">
      <span class="curve-name">
        {title} <b class="num">{word(last.value)}</b>
      </span>
      <svg class="plot" viewBox="0 0 1000 100" preserveAspectRatio="none">
        <polyline points={curvePoints(axis, points)} />
      </svg>
    </div>
  );
}

/** Checkpoints that are close to each other are in rows of this height. */
const MOST_ROWS = 3;
const ROW_REM = 1.625;

/** Effects, answers and what else has a moment: an icon and a word at its place. */
function Marks(props: {
  readonly title: string;
  readonly axis: Axis;
  readonly marks: readonly Mark[];
}): JSX.Element | null {
  const { axis, title } = props;
  const marks = props.marks.filter(({ at }) => axis.x(at) >= -0.01 && axis.x(at) <= 100.01);
  const rows = stagger(
    marks.map(({ at }) => axis.x(at)),
    12,
    MOST_ROWS,
  );
  if (props.marks.length === 0) return null;
  return (
    <div class="curve" aria-hidden="true">
      <span class="curve-name">{title}</span>
      <div class="marks" style={{ height: `${(Math.max(0, ...rows.map((row) => row ?? 0)) + 1) * 1.25}rem` }}>
        {marks.map(({ at, kind, text, entry }, index) => (
          <span
            key={entry}
            class={axis.x(at) > 85 ? "at at-end" : "at"}
            title={`${text}, ${clock(at, true)}`}
            style={{ left: `${axis.x(at)}%`, top: `${(rows[index] ?? 0) * 1.25}rem` }}
          >
            <Icon name={MARK_ICONS[kind]} />
            {rows[index] === null ? null : <Text>{text}</Text>}
          </span>
        ))}
      </div>
    </div>
  );
}

/** The checkpoints, and two handles that choose what to compare. */
function Checkpoints(props: Props & { readonly axis: Axis }): JSX.Element | null {
  const { axis, run, handles, onHandles } = props;
  const checkpoints = useMemo(() => props.checkpoints.toSorted((a, b) => a.sequence - b.sequence), [props.checkpoints]);
  const lane = useRef<HTMLDivElement>(null);
  const places = checkpoints.map(({ createdAt }) => axis.x(createdAt));
  const rows = stagger(places, (checkpoints.at(-1)?.sequence ?? 0) < 100 ? 2.4 : 3.6, MOST_ROWS);
  const lowest = Math.max(...rows.map((row) => row ?? 0));
  const outside = (x: number): boolean => x < -0.01 || x > 100.01;
  const [a, b] = handles ?? [null, null];
  if (checkpoints.length === 0) return null;
  const indexOf = (sequence: number | null): number => checkpoints.findIndex((one) => one.sequence === sequence);
  const nearest = (event: PointerEvent): number | null => {
    const box = lane.current?.getBoundingClientRect();
    if (box === undefined) return null;
    const x = ((event.clientX - box.left) / box.width) * 100;
    const best = places.reduce(
      (found, place, index) => (Math.abs(place - x) < Math.abs((places[found] ?? 0) - x) ? index : found),
      0,
    );
    return checkpoints[best]?.sequence ?? null;
  };
  const move = (which: 0 | 1, sequence: number | null): void => {
    if (handles === null || sequence === null || handles[which] === sequence) return;
    onHandles(which === 0 ? [sequence, handles[1]] : [handles[0], sequence]);
  };
  const handle = (which: 0 | 1, sequence: number): JSX.Element | null => {
    const at = indexOf(sequence);
    const checkpoint = checkpoints[at];
    const onKey = (event: KeyboardEvent): void => {
      const to = stepOf(event.key, at, checkpoints.length);
      if (to === null) return;
      event.preventDefault();
      event.stopPropagation();
      move(which, checkpoints[Math.min(checkpoints.length - 1, Math.max(0, to))]?.sequence ?? null);
    };
    if (outside(places[at] ?? 0)) return null;
    return (
      <span
        class={which === 0 ? "handle handle-a" : "handle"}
        role="slider"
        title={`Drag to compare ${which === 0 ? "from" : "to"} another checkpoint`}
        tabIndex={0}
        aria-label={which === 0 ? "Compare from checkpoint" : "Compare to checkpoint"}
        aria-valuemin={Math.min(sequence, checkpoints[0]?.sequence ?? 0)}
        aria-valuemax={checkpoints.at(-1)?.sequence ?? 0}
        aria-valuenow={sequence}
        aria-valuetext={
          checkpoint === undefined
            ? String(sequence || "start of the run")
            : `checkpoint ${sequence}, ${stageWord(checkpoint.stage, checkpoint.iteration)}`
        }
        style={{ left: `${places[at] ?? 0}%` }}
        onKeyDown={onKey}
        onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)}
        onPointerMove={(event) => {
          if (event.currentTarget.hasPointerCapture(event.pointerId)) move(which, nearest(event));
        }}
      >
        {which === 0 ? "A" : "B"}
      </span>
    );
  };
  const inside = (x: number | undefined): number => Math.min(100, Math.max(0, x ?? 0));
  const [x0, x1] = [inside(places[indexOf(a)]), inside(places[indexOf(b)])];
  return (
    <div class="checkpoints">
      <span class="curve-name">
        checkpoints
        {a === null ? null : <span class="curve-hint">drag A and B to compare</span>}
      </span>
      <div class="checkpoint-lane" ref={lane} style={{ height: `${lowest * ROW_REM + 3.75}rem` }}>
        <svg class="plot" aria-hidden="true">
          <line x1="0" x2="100%" y1="12" y2="12" />
          {places.map((x, index) =>
            rows[index] === null ? <line key={index} x1={`${x}%`} x2={`${x}%`} y1="8" y2="16" /> : null,
          )}
        </svg>
        {checkpoints.map(({ sequence, tags, stage, iteration }, index) => {
          const row = rows[index] ?? null;
          if (row === null || outside(places[index] ?? 0)) return null;
          return (
            <span
              key={sequence}
              class="stop"
              style={{ left: `${places[index] ?? 0}%`, top: `${row * ROW_REM + 0.25}rem` }}
            >
              <A
                to={checkpointRoute(run, sequence)}
                title={`checkpoint ${sequence}: ${[stageWord(stage, iteration), ...tags].join(", ")}`}
                class={`dot num ${tags.length > 0 ? "dot-tagged" : ""} ${sequence === props.selected ? "dot-selected" : ""} ${sequence === a || sequence === b ? "dot-end" : ""}`}
              >
                <span class="sr-only">checkpoint </span>
                {sequence}
              </A>
            </span>
          );
        })}
        {a === null || b === null ? null : (
          <div class="handles" style={{ top: `${lowest * ROW_REM + 2}rem` }}>
            <span class="range" style={{ left: `${Math.min(x0, x1)}%`, width: `${Math.abs(x1 - x0)}%` }} />
            {handle(0, a)}
            {handle(1, b)}
          </div>
        )}
      </div>
    </div>
  );
}
