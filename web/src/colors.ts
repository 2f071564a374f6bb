/**
 * Colors with a meaning, after Okabe and Ito: distinct with every kind of color vision, which a test simulates. Fills are light enough for dark
 * text in both themes, so that one set of labels serves both.
 */

import { computed, signal } from "@preact/signals";

/** Layers of the stack, by kinds of frames and events. */
export const LAYERS = {
  python: { title: "Python", fill: "#8fc3ed" },
  module: { title: "Module", fill: "#b7d7f4" },
  operator: { title: "Operator", fill: "#66cca9" },
  backward: { title: "Backward", fill: "#3daf88" },
  native: { title: "Native", fill: "#dcd3ca" },
  runtime: { title: "GPU API", fill: "#d4b655" },
  kernel: { title: "Kernel", fill: "#ea8e5e" },
  copy: { title: "Copy", fill: "#de8cb7" },
  communication: { title: "Communication", fill: "#bb80d3" },
  span: { title: "Span", fill: "#c3d2db" },
} as const;

export type Layer = keyof typeof LAYERS;

/** The layer of a kind of frame or event. */
export function layerOf(kind: string): Layer {
  if (kind.startsWith("python")) return "python";
  if (kind.startsWith("module")) return "module";
  if (kind.startsWith("backward")) return "backward";
  if (kind.startsWith("operator")) return "operator";
  if (/collective|communication/.test(kind)) return "communication";
  if (/memcpy|memset|copy/.test(kind)) return "copy";
  if (/kernel|gpu_work/.test(kind)) return "kernel";
  if (/runtime|driver|sync|launch|api/.test(kind)) return "runtime";
  if (/native|compiled/.test(kind)) return "native";
  return "span";
}

/** Color and icon of each area of findings. */
export const AREAS: Readonly<Record<string, { icon: string; fill: string }>> = {
  host: { icon: "◐", fill: "#d4b655" },
  synchronization: { icon: "◔", fill: "#e05068" },
  data: { icon: "⇥", fill: "#5eadee" },
  kernels: { icon: "▦", fill: "#ea8e5e" },
  copies: { icon: "⇄", fill: "#de8cb7" },
  communication: { icon: "⇅", fill: "#bb80d3" },
  memory: { icon: "▤", fill: "#66cca9" },
  measurement: { icon: "◎", fill: "#dcd3ca" },
};

export const area = (name: string) => AREAS[name] ?? { icon: "•", fill: "#e4733b" };

/** Causes of time on the critical path, and where overview's bar gets its colors. */
export const CAUSES: Readonly<Record<string, { title: string; fill: string }>> = {
  gpu_compute: { title: "GPU computes", fill: "#ea8e5e" },
  gpu_communication: { title: "GPU communicates", fill: "#bb80d3" },
  gpu_copy: { title: "GPU copies", fill: "#de8cb7" },
  gpu_queue: { title: "GPU queue", fill: "#f3b98d" },
  launch_latency: { title: "Launches", fill: "#d4b655" },
  host_operator: { title: "Operators on the CPU", fill: "#66cca9" },
  host_runtime: { title: "GPU API calls", fill: "#f2d46f" },
  host_python: { title: "Python, or gaps between recorded calls", fill: "#8fc3ed" },
  host_blocked: { title: "Host blocked", fill: "#e05068" },
  host_data_loading: { title: "Data loading", fill: "#5eadee" },
  sync_return: { title: "Delay until a wait for the GPU returns", fill: "#b7d7f4" },
  thread_handover: { title: "Delay until a signaled thread resumes", fill: "#99b088" },
  profiler: { title: "Profiler", fill: "#dcd3ca" },
  unknown: { title: "Unknown", fill: "#c3d2db" },
};

export const cause = (name: string) => CAUSES[name] ?? { title: name.replaceAll("_", " "), fill: "#c3d2db" };

const query = typeof matchMedia === "function" ? matchMedia("(prefers-color-scheme: dark)") : undefined;
const prefersDark = signal(query?.matches ?? false);
query?.addEventListener("change", (event) => (prefersDark.value = event.matches));

const THEMES = ["", "light", "dark", "contrast"] as const;
export type Theme = (typeof THEMES)[number];
const KEY = "stackline.theme";

/** The theme that was chosen; none means that of the system. */
export const theme = signal<Theme>("");

/** Keeps a theme for when the page is loaded again. */
export function setTheme(chosen: Theme): void {
  theme.value = chosen;
  try {
    localStorage.setItem(KEY, chosen);
  } catch {
    // A page from a disk may not keep anything: it holds until it is closed.
  }
}

/** Takes the theme that was kept: before anything is drawn. */
export function readTheme(): void {
  try {
    const stored = localStorage.getItem(KEY);
    theme.value = THEMES.find((one) => one === stored) ?? "";
  } catch {
    // Nothing may be kept: that of the system.
  }
}

/** The page is being printed, on light paper in any theme. */
export const isPrinting = signal(false);
const print = typeof matchMedia === "function" ? matchMedia("print") : undefined;
if (print) {
  isPrinting.value = print.matches;
  print.addEventListener("change", ({ matches }) => (isPrinting.value = matches));
  addEventListener("beforeprint", () => (isPrinting.value = true));
  addEventListener("afterprint", () => (isPrinting.value = print.matches));
}

export const isDark = computed(() => !isPrinting.value && (theme.value === "" || theme.value === "contrast" ? prefersDark.value : theme.value === "dark"));

const prefers = (feature: string) => typeof matchMedia === "function" && matchMedia(`(${feature})`).matches;

/** Ink and paper of canvases. */
export const canvas = computed(() => {
  const isMore = !isPrinting.value && (theme.value === "contrast" || prefers("prefers-contrast: more") || prefers("forced-colors: active"));
  if (isMore) {
    const [paper, ink] = isDark.value ? ["#000000", "#ffffff"] : ["#ffffff", "#000000"];
    return { paper, ink, quiet: ink, line: ink, label: "#000000", mark: ink };
  }
  return isDark.value
    ? { paper: "#15181d", ink: "#e8eaee", quiet: "#a4abb6", line: "#39404a", label: "#14171b", mark: "#ffffff" }
    : { paper: "#ffffff", ink: "#1b1f24", quiet: "#59626e", line: "#d5dae0", label: "#14171b", mark: "#0b0d10" };
});

export type InkOf = typeof canvas.value;
