/**
 * A canvas that is as sharp as the screen. It is no larger than its visible part: its content may be far taller, and is
 * scrolled below it. It is drawn when its content, its size, the theme or the scroll position changes.
 */

import type { HTMLAttributes, RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { canvas as colors, type InkOf, isPrinting } from "../colors";

interface Props extends Omit<HTMLAttributes<HTMLCanvasElement>, "ref"> {
  readonly label: string;
  /** Total height of the content, in pixels of the page. */
  readonly height: number;
  /** Draw the visible part with the current colors; `top` is the scroll position. */
  readonly draw: (context: CanvasRenderingContext2D, width: number, height: number, top: number, ink: InkOf) => void;
  readonly onWidth?: (width: number) => void;
  /** Scroll position, for hit testing. */
  readonly scroll: RefObject<number>;
}

/** Share of the window that it takes at most, where its frame sets no limit. */
const MOST = 0.75;

export function Canvas({ label, height, draw, onWidth, scroll, ...rest }: Props) {
  const element = useRef<HTMLCanvasElement>(null);
  const holder = useRef<HTMLDivElement>(null);
  const [size, setSize] = useState({ width: 0, most: 600 });
  const [top, setTop] = useState(0);
  useLayoutEffect(() => {
    const parent = holder.current?.parentElement;
    if (!parent) return;
    const measure = () => {
      const limit = Number.parseFloat(getComputedStyle(parent).maxHeight);
      const most = Number.isFinite(limit) ? limit : innerHeight * MOST;
      setSize({ width: parent.clientWidth, most: Math.max(Math.round(most), 200) });
      onWidth?.(parent.clientWidth);
    };
    const scrolled = () => setTop(parent.scrollTop);
    const observer = new ResizeObserver(measure);
    observer.observe(parent);
    parent.addEventListener("scroll", scrolled);
    measure();
    return () => {
      observer.disconnect();
      parent.removeEventListener("scroll", scrolled);
    };
  }, []);
  const { width, most } = size;
  const high = Math.min(height, most);
  const from = Math.min(top, Math.max(height - high, 0));
  scroll.current = from;
  // Another theme draws it anew.
  void colors.value;
  const paint = () => {
    const canvas = element.current;
    if (!canvas || width === 0) return;
    const scale = devicePixelRatio || 1;
    const [wide, tall] = [Math.round(width * scale), Math.round(high * scale)];
    if (canvas.width !== wide || canvas.height !== tall) [canvas.width, canvas.height] = [wide, tall];
    const context = canvas.getContext("2d", { alpha: false });
    if (!context) return;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    draw(context, width, high, from, colors.peek());
  };
  useEffect(() => {
    const frame = requestAnimationFrame(paint);
    return () => cancelAnimationFrame(frame);
  });
  const latest = useRef(paint);
  latest.current = paint;
  // Paper is made of what is drawn by then: no frame comes between.
  useEffect(() => {
    let isThere = false;
    const end = isPrinting.subscribe(() => isThere && latest.current());
    isThere = true;
    return end;
  }, []);
  return (
    <div ref={holder} style={{ height: `${height}px` }}>
      <canvas
        ref={element}
        tabIndex={0}
        role="application"
        aria-label={label}
        style={{ width: "100%", height: `${high}px`, display: "block", position: "sticky", top: 0 }}
        {...(rest as object)}
      />
    </div>
  );
}
