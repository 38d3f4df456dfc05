import type { ToolCall } from '../llm/types.ts';
import type { CallSource, NotRunCause, RunCall } from '../runs/steps.ts';
import type { ArgumentChecker } from '../tools/arguments.ts';
import type { Tool, WithheldTool } from '../tools/tool.ts';
import { cut } from './text.ts';

/** Why a call is not run, and what the model is told. */
export type Refused = { readonly refused: NotRunCause; readonly text: string };
export type Prepared = { readonly tool: Tool; readonly argumentsText: string };

/** What calls are looked up in. */
export interface Offer {
  readonly tools: readonly Tool[];
  /** Tools that are not offered, and that the model may call all the same. */
  readonly withheld?: readonly WithheldTool[];
  readonly checker: ArgumentChecker;
}

const SHOWN_SCHEMA = 4000;

/**
 * Whether a call can be made by what is offered now. One that was begun before means the tool it was begun with, by its
 * journal or by `begunWith`: another one under its name is not called.
 */
export function prepare(
  { call, ...recorded }: RunCall,
  { tools, withheld = [], checker }: Offer,
  begunWith: readonly (CallSource | undefined)[] = [],
): Prepared | Refused {
  const begun = [...recordedSources({ call, ...recorded }), ...begunWith];
  const tool = tools.find(({ spec }) => spec.name === call.name);
  if (tool === undefined) {
    const blocked = withheld.find(({ offeredAs }) => offeredAs === call.name);
    if (blocked?.code === 'denied_by_policy') {
      const text = `Error: the tool ${call.name} was not called: it is denied by the agent's permissions. Go on without it.`;
      return { refused: 'denied', text };
    }
    if (blocked !== undefined) {
      return { refused: 'needs_approval', text: `Error: the tool ${call.name} was not called: ${blocked.message}` };
    }
    if (begun.length > 0) return changed(call, 'it is not offered any more');
    const names = tools.length === 0 ? 'none' : tools.map(({ spec }) => spec.name).join(', ');
    return { refused: 'unknown_tool', text: `Error: unknown tool ${call.name}; available: ${names}` };
  }
  if (!begun.every((source) => isSame(source, tool.source))) {
    return changed(call, 'it is another tool by now, or its definition is another one');
  }
  const fault = checker.check(call.arguments, tool.spec.inputSchema);
  if (fault === undefined) return { tool, argumentsText: call.arguments };
  const schema = cut(JSON.stringify(tool.spec.inputSchema), SHOWN_SCHEMA);
  const said = fault.cause === 'malformed_arguments' ? 'are' : 'do not fit the schema:';
  const text = `Error: the arguments of ${call.name} ${said} ${fault.message}. Nothing was run; send the call again with a JSON object of this schema: ${schema}`;
  return { refused: fault.cause, text };
}

function changed({ name }: ToolCall, what: string): Refused {
  const text = `Error: not run. Since ${name} was called, ${what}; nothing that was approved or answered then holds for it. Call a tool that is offered now, or go on without it.`;
  return { refused: 'changed', text };
}

/** The tools that the steps of a call are about. */
function recordedSources({ approval, round, intent }: RunCall): (CallSource | undefined)[] {
  const asked = [...(approval ? [approval] : []), ...(round?.asked ?? [])].map(({ request }) => request.source);
  if (intent === undefined) return asked;
  const { connectorId, serverTool: tool } = intent;
  return [...asked, connectorId === undefined || tool === undefined ? undefined : { connectorId, tool }];
}

/** An intent does not say of which definition it was. */
function isSame(begun: CallSource | undefined, now: CallSource | undefined): boolean {
  if (begun === undefined || now === undefined) return begun === now;
  const { connectorId, tool, hash } = begun;
  return connectorId === now.connectorId && tool === now.tool && (hash === undefined || hash === now.hash);
}
