import { expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { type Rig, startRig } from '../hazards/rig.ts';
import type { FakeMcpScript, FakeMcpServer, Reply } from '../support/fake-mcp-server.ts';
import { callsWith, startFaultRig } from './rig.ts';

/** A status and the cause that goes with it. */
export type Shown = readonly [status: string, code?: string];

export interface Fault {
  readonly name: string;
  /** Before the first use, or once a call has been answered. */
  readonly from: 'start' | 'session';
  readonly begin: (server: FakeMcpServer) => unknown;
  /** What ends it; by default every request is answered normally again. */
  readonly end?: (server: FakeMcpServer) => unknown;
  /** Status and cause before the reply of the use that met the fault, and after it. */
  readonly shown: Shown;
  /** What a probe finds while the fault lasts, where that differs. */
  readonly probed?: Shown;
  /** What the model is told. */
  readonly told: RegExp;
  /** How often the call that met the fault was sent. */
  readonly sent: number;
  readonly config?: JsonObject;
  /** Belongs to the session era (to 2025-11-25) alone. */
  readonly sessionEra?: true;
}

export const every =
  (reply: Reply) =>
  (server: FakeMcpServer): void =>
    server.on('*', reply);

export const only =
  (method: string, reply: Reply | readonly Reply[]) =>
  (server: FakeMcpServer): void =>
    server.on(method, reply);

export const normal = (method: string): ((server: FakeMcpServer) => void) => only(method, 'normal');

export const connected: Shown = ['connected'];
export const failed = (code: string): Shown => ['failed', code];
export const signIn = (code = 'auth_required'): Shown => ['auth_required', code];

/** What the model is told of a call that may have run. */
export const unknown = /outcome (of the call )?is unknown/i;
/** What the model is told of a connector whose tools are not there. */
export const missing = /cannot be reached now/;

/** The status of a connection in two words. */
export function brief({ status, error }: JsonObject): unknown[] {
  const code = (error as JsonObject | undefined)?.code;
  return code === undefined ? [status] : [status, code];
}

/** One test for each fault, at servers of `script`, and one for what all of them leave behind. */
export function testFaults(faults: readonly Fault[], script: FakeMcpScript = {}): void {
  const rig: Rig = startRig();
  const own = startFaultRig(rig);

  it.each(faults)(
    '$name: shown before the reply, over when it is over, no call repeated, nothing left',
    async (fault) => {
      const server = await own.serve(script);
      const id = await own.connector(server.origin, fault.config);
      const agent = await rig.agent(id);
      if (fault.from === 'session') expect((await own.turn(agent, id, 'before')).answer).toMatch(/"before"/);

      await fault.begin(server);
      const during = await own.turn(agent, id, 'during');
      expect(brief(during.before)).toEqual(fault.shown);
      expect(during.told).toMatch(fault.told);
      expect(brief(await rig.status(id))).toEqual(fault.shown);
      const [ofAgent] = await rig.connections(agent);
      expect(brief(ofAgent ?? {})).toEqual(fault.shown);
      expect(callsWith(server, 'during')).toBe(fault.sent);
      if (fault.shown[1] !== undefined) {
        const { message, remedy } = (await rig.status(id)).error as { message: string; remedy: string };
        expect(message).toContain('connector "weather"');
        expect(message).not.toContain('secret page');
        expect(remedy).not.toBe('');
      }
      expect(brief(await rig.status(id, '?probe=true'))).toEqual(fault.probed ?? fault.shown);

      await (fault.end ?? every('normal'))(server);
      const after = await own.turn(agent, id, 'after');
      expect(after).toMatchObject({ answer: 'echo: {"text":"after"}', warning: null });
      expect(brief(await rig.status(id))).toEqual(connected);
      const first = fault.from === 'session' ? 1 : 0;
      const sent = ['before', 'during', 'after'].map((text) => callsWith(server, text));
      expect(sent).toEqual([first, fault.sent, 1]);
      await own.leave([server]);
    },
  );

  it('no socket is left behind', () => own.nothingIsLeft());
}
