/** Answers from the server of this page. URLs are relative, since proxies add their own path. */

import { decode } from "./decode";
import { type AnswerTo, type Arguments, type QueryName, Refused, type Transport } from "./index";

export function http(): Transport {
  return {
    kind: "server",
    async request<Q extends QueryName>(name: Q, args: Arguments = {}) {
      const search = new URLSearchParams();
      for (const [argument, value] of Object.entries(args)) {
        if (value !== undefined && value !== "") {
          search.set(argument, String(value));
        }
      }
      let response: Response;
      try {
        response = await fetch(`query/${name}?${search}`);
      } catch {
        throw new Refused("The Stackline server has stopped or cannot be reached. Start it again with the same command.", "offline");
      }
      if (!response.ok) {
        throw new Refused(await reason(response), response.status === 422 ? "lacks" : "wrong");
      }
      return decode(await response.arrayBuffer()) as AnswerTo<Q>;
    },
  };
}

async function reason(response: Response): Promise<string> {
  try {
    return ((await response.json()) as { error: string }).error;
  } catch {
    return `The Stackline server refused the request (HTTP status ${response.status}).`;
  }
}
