import { INVALID_ARGUMENT } from '../errors.ts';
import { isJsonObject, type JsonObject, type JsonValue, parseJson } from '../json.ts';
import { type CompiledPattern, compilePattern } from '../outbound/pattern.ts';

export type ToolPermission = 'allow' | 'ask' | 'deny';
/** What becomes of a tool whose definition is not the pinned one: offered with a warning, or not at all. */
export type ToolTrust = 'warn' | 'block';

/** The setting that holds for tools no rule of the agent matches. */
export const PERMISSION_DEFAULT = 'plugins.ml_commons.tool_permission_default';

const PERMISSIONS: readonly ToolPermission[] = ['allow', 'ask', 'deny'];
const MEMBERS = ['tool', 'connector_id', 'annotation', 'permission'];
const MAX_RULES = 200;
/** Steps that all patterns together may take for one character of a name. */
const MAX_STEPS = 4000;

/** Hints of a tool (MCP, ToolAnnotations). */
const HINTS = ['readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint'] as const;
type Hint = (typeof HINTS)[number];

interface PermissionRule {
  /** Where the rule stands, from 0. */
  readonly index: number;
  readonly tool: CompiledPattern;
  readonly connectorId?: string;
  readonly annotation?: { readonly hint: Hint; readonly value: boolean };
  readonly permission: ToolPermission;
}

/** What the parameters of an agent say about its tools. */
export interface ToolPolicy {
  readonly rules: readonly PermissionRule[];
  readonly trust: ToolTrust;
  /** Some rule looks at what the server says about a tool. */
  readonly usesAnnotations: boolean;
}

/** A tool as rules look at it. */
export interface JudgedTool {
  readonly connectorId: string;
  /** The server's own name. */
  readonly name: string;
  readonly offeredAs: string | undefined;
  readonly annotations: JsonObject | undefined;
}

/** A permission and the rule that gave it; without a rule it is the default. */
export interface PermissionVerdict {
  readonly permission: ToolPermission;
  readonly rule?: number;
}

/**
 * Reads `tool_permissions` and `tool_trust` of the parameters of an agent's document; parameters of a request are not looked
 * at. @throws INVALID_ARGUMENT naming the member that cannot be used
 */
export function toolPolicy(agent: JsonObject): ToolPolicy {
  const parameters = isJsonObject(agent.parameters) ? agent.parameters : {};
  const rules = rulesOf(parameters.tool_permissions);
  return {
    rules,
    trust: trustOf(parameters.tool_trust),
    usesAnnotations: rules.some((rule) => rule.annotation !== undefined),
  };
}

/** The first rule that matches decides; where none does, the default. */
export function permissionOf(
  tool: JudgedTool,
  { rules }: Pick<ToolPolicy, 'rules'>,
  byDefault: ToolPermission,
): PermissionVerdict {
  const rule = rules.find((candidate) => matches(candidate, tool));
  return rule === undefined ? { permission: byDefault } : { permission: rule.permission, rule: rule.index };
}

/** The one that allows the least; of equal ones the first. */
export function strictest(verdicts: readonly [PermissionVerdict, ...PermissionVerdict[]]): PermissionVerdict {
  return verdicts.reduce((least, verdict) =>
    PERMISSIONS.indexOf(verdict.permission) > PERMISSIONS.indexOf(least.permission) ? verdict : least,
  );
}

/** The default in force, as the setting has it. */
export function permissionDefault(text: string | undefined): ToolPermission {
  return PERMISSIONS.find((known) => known === text) ?? 'allow';
}

function matches(rule: PermissionRule, { connectorId, name, offeredAs, annotations }: JudgedTool): boolean {
  if (rule.connectorId !== undefined && rule.connectorId !== connectorId) return false;
  if (rule.annotation !== undefined && hintOf(annotations, rule.annotation.hint) !== rule.annotation.value)
    return false;
  return rule.tool.test(name) || (offeredAs !== undefined && offeredAs !== name && rule.tool.test(offeredAs));
}

/**
 * A hint as MCP defines it: absent, or no boolean, `destructiveHint` and `openWorldHint` are true, the others false; a tool
 * that is read-only destroys nothing and may be repeated, whatever it says of that.
 */
function hintOf(annotations: JsonObject | undefined, hint: Hint): boolean {
  const given = annotations?.[hint];
  const readOnly = annotations?.readOnlyHint === true;
  switch (hint) {
    case 'readOnlyHint':
      return readOnly;
    case 'destructiveHint':
      return !readOnly && given !== false;
    case 'idempotentHint':
      return readOnly || given === true;
    case 'openWorldHint':
      return given !== false;
  }
}

/** Parameters are texts inside: the list is there as itself or as its JSON text. */
function rulesOf(value: JsonValue | undefined): PermissionRule[] {
  if (value === undefined || value === null || value === '') return [];
  const list = typeof value === 'string' ? parseJson(value) : value;
  if (!Array.isArray(list)) {
    throw new INVALID_ARGUMENT(
      'tool_permissions must be an array of {"tool":"<regex>","connector_id"?,"annotation"?,"permission":"allow"|"ask"|"deny"}',
    );
  }
  if (list.length > MAX_RULES) throw new INVALID_ARGUMENT(`tool_permissions holds more than ${MAX_RULES} rules`);
  const rules = list.map(ruleOf);
  if (rules.reduce((sum, { tool }) => sum + tool.size, 0) > MAX_STEPS) {
    throw new INVALID_ARGUMENT('The patterns of tool_permissions are too much together: write shorter or fewer ones');
  }
  return rules;
}

function ruleOf(value: JsonValue, index: number): PermissionRule {
  const where = `tool_permissions[${index}]`;
  if (!isJsonObject(value)) throw new INVALID_ARGUMENT(`${where} must be an object with tool and permission`);
  const unknown = Object.keys(value).find((name) => !MEMBERS.includes(name));
  if (unknown !== undefined) {
    throw new INVALID_ARGUMENT(
      `${where} has no member ${JSON.stringify(unknown.slice(0, 100))}; it has ${MEMBERS.join(', ')}`,
    );
  }
  const { tool, connector_id: connectorId, annotation } = value;
  const permission = PERMISSIONS.find((known) => known === value.permission);
  if (permission === undefined) throw new INVALID_ARGUMENT(`${where}.permission must be allow, ask or deny`);
  if (typeof tool !== 'string' || tool === '') {
    throw new INVALID_ARGUMENT(
      `${where}.tool must be a regular expression for whole tool names; .* matches every tool`,
    );
  }
  if (connectorId !== undefined && (typeof connectorId !== 'string' || connectorId === '')) {
    throw new INVALID_ARGUMENT(`${where}.connector_id must be the id of an MCP connector`);
  }
  return {
    index,
    tool: compilePattern(tool, ` of ${where}.tool`),
    ...(connectorId !== undefined && { connectorId }),
    ...(annotation !== undefined && { annotation: annotationOf(annotation, where) }),
    permission,
  };
}

/** `hint`, `!hint`, `hint=true` or `hint=false`. */
function annotationOf(value: JsonValue, where: string): { readonly hint: Hint; readonly value: boolean } {
  const [, not = '', name, wanted = 'true'] =
    typeof value === 'string' ? (/^\s*(!?)([a-zA-Z]{1,40})(?:=(true|false))?\s*$/.exec(value) ?? []) : [];
  const hint = HINTS.find((known) => known === name);
  if (hint === undefined) {
    throw new INVALID_ARGUMENT(
      `${where}.annotation must be one of ${HINTS.join(', ')}, with ! before it or =true or =false behind it if need be`,
    );
  }
  return { hint, value: (wanted === 'true') !== (not === '!') };
}

function trustOf(value: JsonValue | undefined): ToolTrust {
  if (value === undefined || value === null || value === '' || value === 'warn') return 'warn';
  if (value === 'block') return 'block';
  throw new INVALID_ARGUMENT('tool_trust must be warn or block');
}
