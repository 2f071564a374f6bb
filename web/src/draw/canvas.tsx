/** A canvas that is as sharp as the screen, and is drawn when what it shows, its size or the theme changes. */

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { HTMLAttributes } from "preact";

interface Props extends Omit<HTMLAttributes<HTMLCanvasElement>, "ref"> {
  readonly label: string;
  readonly height: number;
  readonly draw: (context: CanvasRenderingContext2D, width: number, height: number) => void;
  readonly onWidth?: (width: number) => void;
}

export function Canvas({ label, height, draw, onWidth, ...rest }: Props) {
  const element = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const parent = element.current?.parentElement;
    if (!parent) return;
    const measure = () => {
      setWidth(parent.clientWidth);
      onWidth?.(parent.clientWidth);
    };
    const observer = new ResizeObserver(measure);
    observer.observe(parent);
    measure();
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    const canvas = element.current;
    if (!canvas || width === 0) return;
    const frame = requestAnimationFrame(() => {
      const scale = devicePixelRatio || 1;
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
      const context = canvas.getContext("2d", { alpha: false });
      if (!context) return;
      context.setTransform(scale, 0, 0, scale, 0, 0);
      draw(context, width, height);
    });
    return () => cancelAnimationFrame(frame);
  });
  return (
    <canvas
      ref={element}
      tabIndex={0}
      role="application"
      aria-label={label}
      style={{ width: "100%", height: `${height}px`, display: "block" }}
      {...(rest as object)}
    />
  );
}
