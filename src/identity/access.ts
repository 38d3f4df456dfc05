/** A tool that a role may not use, whatever the agent offers. */
export interface DeniedTool {
  /** Absent: on every connector. */
  readonly connectorId?: string;
  /** Regular expression that must match the server's whole tool name. */
  readonly tool: string;
}

/** What a principal may do: the union of its roles, narrowed by the scope of its API key. */
export interface Access {
  /** `<noun>:<verb>`, as the routes name it; `connector:use` is using a connector through an agent. */
  allows(permission: string): boolean;
  /** Sees and changes everything whoever owns it. */
  readonly admin: boolean;
  deniesTool(connectorId: string, tool: string): boolean;
}

/** Everything allowed: open mode, the static key, the platform itself. */
export const FULL_ACCESS: Access = Object.freeze({ allows: () => true, admin: true, deniesTool: () => false });
