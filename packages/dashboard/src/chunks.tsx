// Long lists: rows in chunks that exist in the document only near the part that is shown.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

/** About the height of a chunk, in pixels. What is shown, with its margin, touches three chunks at most on a laptop. */
const HEIGHT = 2000;

export function Chunks<T>(props: {
  readonly items: readonly T[];
  readonly rowHeight: number;
  readonly children: (item: T, index: number) => ComponentChildren;
}): JSX.Element {
  const { items, rowHeight, children } = props;
  const size = Math.ceil(HEIGHT / rowHeight);
  const count = Math.ceil(items.length / size);
  if (count <= 1) return <>{items.map(children)}</>;
  return (
    <>
      {Array.from({ length: count }, (_, chunk) => {
        const rows = items.slice(chunk * size, (chunk + 1) * size);
        return (
          <Chunk key={chunk} height={rows.length * rowHeight} shown={chunk === 0}>
            {() => rows.map((item, index) => children(item, chunk * size + index))}
          </Chunk>
        );
      })}
    </>
  );
}

/** Its height stays what it was when it was last shown, so that the scroll bar does not jump. */
function Chunk(props: {
  readonly height: number;
  readonly shown: boolean;
  readonly children: () => ComponentChildren;
}): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const measured = useRef<number | null>(null);
  const [near, setNear] = useState(props.shown);
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const observer = new IntersectionObserver(
      ([entry]) => {
        if (entry === undefined) return;
        if (!entry.isIntersecting && element.childElementCount > 0) measured.current = entry.boundingClientRect.height;
        setNear(entry.isIntersecting);
      },
      { rootMargin: "800px" },
    );
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return (
    <div ref={box} style={near ? undefined : { height: `${measured.current ?? props.height}px` }}>
      {near ? props.children() : null}
    </div>
  );
}
