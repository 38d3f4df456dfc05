import { describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../src/json.ts';
import {
  type JudgedTool,
  permissionDefault,
  permissionOf,
  strictest,
  toolPolicy,
} from '../../src/tools/tool-policy.ts';
import { judge } from '../../src/tools/verdicts.ts';

const policyOf = (tool_permissions: JsonValue, more: JsonObject = {}) =>
  toolPolicy({ parameters: { tool_permissions, ...more } });
const tool = (name: string, more: Partial<JudgedTool> = {}): JudgedTool => ({
  name,
  connectorId: 'c1',
  offeredAs: name,
  annotations: undefined,
  ...more,
});
const permission = (rules: JsonValue, subject: JudgedTool, byDefault: 'allow' | 'ask' | 'deny' = 'allow') =>
  permissionOf(subject, policyOf(rules), byDefault).permission;

describe('the rules of an agent', () => {
  it('are tried in order, and the first that matches decides', () => {
    const rules = [
      { tool: 'delete_draft', permission: 'allow' },
      { tool: 'delete_.*', permission: 'deny' },
      { tool: '.*', permission: 'ask' },
    ];
    expect(permissionOf(tool('delete_draft'), policyOf(rules), 'deny')).toEqual({ permission: 'allow', rule: 0 });
    expect(permissionOf(tool('delete_mail'), policyOf(rules), 'allow')).toEqual({ permission: 'deny', rule: 1 });
    expect(permissionOf(tool('send'), policyOf(rules), 'allow')).toEqual({ permission: 'ask', rule: 2 });
  });

  it('leave what none of them matches to the default', () => {
    expect(permissionOf(tool('send'), policyOf([{ tool: 'x', permission: 'deny' }]), 'ask')).toEqual({
      permission: 'ask',
    });
    expect(permissionOf(tool('send'), policyOf(''), 'deny')).toEqual({ permission: 'deny' });
    expect(permissionDefault(undefined)).toBe('allow');
    expect(permissionDefault('deny')).toBe('deny');
  });

  it('match whole names, own or offered', () => {
    const rules = [{ tool: 'mail_send', permission: 'deny' }];
    expect(permission(rules, tool('send', { offeredAs: 'mail_send' }))).toBe('deny');
    expect(permission(rules, tool('mail_send', { offeredAs: 'other' }))).toBe('deny');
    expect(permission(rules, tool('mail_send_all'))).toBe('allow');
    expect(permission(rules, tool('send', { offeredAs: undefined }))).toBe('allow');
  });

  it('may be for one connector', () => {
    const rules = [{ tool: '.*', connector_id: 'c2', permission: 'deny' }];
    expect(permission(rules, tool('send'))).toBe('allow');
    expect(permission(rules, tool('send', { connectorId: 'c2' }))).toBe('deny');
  });

  it('are read from a text as from a list', () => {
    const rules = [{ tool: 'a', permission: 'ask' }];
    expect(permission(JSON.stringify(rules), tool('a'))).toBe('ask');
    expect(policyOf('').rules).toEqual([]);
    expect(toolPolicy({}).trust).toBe('warn');
    expect(policyOf([], { tool_trust: 'block' }).trust).toBe('block');
  });
});

describe('a rule about an annotation', () => {
  const denies = (annotation: string, annotations: JsonObject | undefined): boolean =>
    permission([{ tool: '.*', annotation, permission: 'deny' }], tool('t', { annotations })) === 'deny';

  it.each<[string, JsonObject | undefined, boolean]>([
    ['readOnlyHint', undefined, false],
    ['readOnlyHint', { readOnlyHint: true }, true],
    ['readOnlyHint', { readOnlyHint: 'true' }, false],
    ['!readOnlyHint', undefined, true],
    ['readOnlyHint=false', { readOnlyHint: true }, false],
    ['destructiveHint', undefined, true],
    ['destructiveHint', {}, true],
    ['destructiveHint', { destructiveHint: false }, false],
    ['destructiveHint', { destructiveHint: 'false' }, true],
    ['destructiveHint', { readOnlyHint: true, destructiveHint: true }, false],
    ['!destructiveHint', { readOnlyHint: true }, true],
    ['idempotentHint', undefined, false],
    ['idempotentHint', { idempotentHint: true }, true],
    ['idempotentHint', { readOnlyHint: true, idempotentHint: false }, true],
    ['openWorldHint', undefined, true],
    ['openWorldHint=true', { openWorldHint: false }, false],
    ['!openWorldHint=true', { openWorldHint: false }, true],
    ['!openWorldHint=false', { openWorldHint: true }, true],
  ])('%s looks at %j: %s', (annotation, annotations, expected) => {
    expect(denies(annotation, annotations)).toBe(expected);
  });
});

describe('parameters that cannot be used', () => {
  it.each<[JsonValue, string]>([
    ['{}', 'tool_permissions must be an array of'],
    ['not json', 'tool_permissions must be an array of'],
    [['x'], 'tool_permissions[0] must be an object'],
    [[{ tool: 'a' }], 'tool_permissions[0].permission must be allow, ask or deny'],
    [[{ tool: 'a', permission: 'maybe' }], 'tool_permissions[0].permission must be allow, ask or deny'],
    [[{ permission: 'deny' }], 'tool_permissions[0].tool must be a regular expression'],
    [
      [
        { tool: 'a', permission: 'deny' },
        { tool: '(', permission: 'ask' },
      ],
      'of tool_permissions[1].tool is not a regular',
    ],
    [[{ tool: 'a', connector_id: 7, permission: 'ask' }], 'tool_permissions[0].connector_id must be the id'],
    [
      [{ tool: 'a', annotation: 'title', permission: 'ask' }],
      'tool_permissions[0].annotation must be one of readOnlyHint,',
    ],
    [[{ tool: 'a', annotation: 'readOnlyHint=1', permission: 'ask' }], 'tool_permissions[0].annotation must be one of'],
    [[{ tool: 'a', annotation: true, permission: 'ask' }], 'tool_permissions[0].annotation must be one of'],
    [[{ tool: 'a', permission: 'ask', conector_id: 'c' }], 'tool_permissions[0] has no member "conector_id"'],
    [Array(201).fill({ tool: 'a', permission: 'ask' }), 'tool_permissions holds more than 200 rules'],
    [
      Array.from({ length: 20 }, (_, index) => ({ tool: `${index}x{300}`, permission: 'ask' })),
      'The patterns of tool_permissions are too much together',
    ],
  ])('%j is refused, naming the member', (rules, message) => {
    expect(() => policyOf(rules)).toThrow(message);
  });

  it('a trust that nobody knows is refused', () => {
    expect(() => policyOf([], { tool_trust: 'strict' })).toThrow('tool_trust must be warn or block');
  });
});

describe('the verdict on a tool', () => {
  const unchanged = { of: () => ({ state: 'unchanged', members: [] }) as const };
  const subject = {
    connectorId: 'main',
    target: 'main',
    fallbackConnectorId: 'spare',
    name: 'send',
    offeredAs: 'send',
    annotations: { destructiveHint: false },
  };

  it('is the strictest of all connectors that a call may go to', () => {
    const rules = [{ tool: '.*', connector_id: 'spare', permission: 'ask' }];
    expect(judge(subject, policyOf(rules), 'allow', unchanged)).toEqual({ permission: 'ask', rule: 0 });
    const { fallbackConnectorId: _spare, ...alone } = subject;
    expect(judge(alone, policyOf(rules), 'allow', unchanged)).toEqual({ permission: 'allow' });
    expect(strictest([{ permission: 'ask', rule: 1 }, { permission: 'ask' }])).toEqual({ permission: 'ask', rule: 1 });
  });

  it('is loosened by no annotation that is not approved yet', () => {
    const changed = {
      of: () => ({ state: 'changed', members: ['annotations'], annotations: { destructiveHint: true } }) as const,
    };
    const rules = [{ tool: '.*', annotation: 'destructiveHint', permission: 'deny' }];
    expect(judge(subject, policyOf(rules), 'allow', unchanged).permission).toBe('allow');
    expect(judge(subject, policyOf(rules), 'allow', changed)).toEqual({
      permission: 'deny',
      rule: 0,
      withheld: { code: 'denied_by_policy', message: 'it is denied by tool_permissions[0] of the agent' },
    });
  });

  it('blocks another definition only where the agent says so', () => {
    const changed = { of: () => ({ state: 'changed', members: ['description', 'inputSchema'] }) as const };
    expect(judge(subject, policyOf([]), 'allow', changed)).toEqual({
      permission: 'allow',
      changed: ['description', 'inputSchema'],
    });
    expect(judge(subject, policyOf([], { tool_trust: 'block' }), 'allow', changed).withheld).toEqual({
      code: 'pin_changed',
      message: 'it is blocked until somebody approves it: its description, inputSchema changed',
    });
    const late = { of: () => ({ state: 'new', members: [] }) as const };
    expect(judge(subject, policyOf([], { tool_trust: 'block' }), 'allow', late).withheld?.code).toBe('pin_new');
  });
});
