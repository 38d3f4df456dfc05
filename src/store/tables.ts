/** Row types, one interface per table; times are epoch milliseconds, documents are JSON text. See migrations/. */
interface SequencesTable {
  name: string;
  value: number;
}
interface DocumentsTable {
  kind: string;
  id: string;
  name: string | null;
  body: string;
  version: number;
  seq_no: number;
  created_seq: number;
  created_time: number;
  last_updated_time: number;
}
interface DocumentReferencesTable {
  kind: string;
  id: string;
  target_kind: string;
  target_id: string;
}
interface CredentialsTable {
  owner: string;
  sealed: string;
  last_updated_time: number;
}
interface MasterKeysTable {
  key_id: string;
  probe: string;
  created_time: number;
}
interface MemoriesTable {
  id: string;
  name: string | null;
  application_type: string | null;
  additional_info: string | null;
  owner: string | null;
  version: number;
  seq_no: number;
  create_time: number;
  updated_time: number;
}
interface MessagesTable {
  id: string;
  memory_id: string;
  seq: number;
  parent_message_id: string | null;
  trace_number: number | null;
  input: string | null;
  prompt_template: string | null;
  response: string | null;
  origin: string | null;
  additional_info: string | null;
  version: number;
  create_time: number;
  updated_time: number | null;
}
interface TasksTable {
  id: string;
  task_type: string;
  state: string;
  body: string;
  version: number;
  seq_no: number;
  lease_owner: string | null;
  lease_expires_at: number | null;
  attempts: number;
  run_at: number | null;
  create_time: number;
  last_update_time: number;
  owner: string | null;
}
interface RunsTable {
  id: string;
  agent_id: string;
  memory_id: string | null;
  message_id: string | null;
  principal: string;
  state: string;
  request: string;
  process_id: string | null;
  create_time: number;
  last_update_time: number;
  task_id: string | null;
}
interface RunStepsTable {
  run_id: string;
  seq: number;
  kind: string;
  body: string;
  create_time: number;
}
interface RunRequestsTable {
  id: string;
  run_id: string;
  task_id: string;
  owner: string;
  kind: string;
  body: string;
  state: string;
  answer: string | null;
  answered_by: string | null;
  create_time: number;
  expires_time: number;
  answer_time: number | null;
  seq_no: number;
}
interface ProcessesTable {
  id: string;
  seen_time: number;
}
interface SettingsTable {
  scope: string;
  name: string;
  value: string;
  last_updated_time: number;
}
interface McpToolsTable {
  connector_id: string;
  name: string;
  definition: string;
  hash: string;
  position: number;
  present: number;
  first_seen_time: number;
  last_seen_time: number;
}
interface OfferedNamesTable {
  agent_id: string;
  offered_as: string;
  connector_id: string;
  tool: string;
  create_time: number;
}
interface ToolPinsTable {
  agent_id: string;
  connector_id: string;
  tool: string;
  hash: string | null;
  definition: string | null;
  pinned_time: number | null;
  approved_by: string | null;
  approved_time: number | null;
  seen_hash: string | null;
  seen_definition: string | null;
  seen_time: number | null;
  shown: string | null;
}
interface ConnectionStatesTable {
  connector_id: string;
  status: string;
  body: string;
  since: number;
}
interface ConnectionTransitionsTable {
  id: string;
  connector_id: string;
  from_status: string;
  to_status: string;
  cause: string;
  code: string | null;
  message: string | null;
  time: number;
}
interface AuditTable {
  id: string;
  time: number;
  principal: string;
  action: string;
  outcome: string;
  agent_id: string | null;
  connector_id: string | null;
  tool: string | null;
  arguments_hash: string | null;
  duration_ms: number | null;
  bytes: number | null;
  detail: string | null;
  arguments: string | null;
  result: string | null;
}
interface UsersTable {
  name: string;
  password_hash: string;
  backend_roles: string;
  roles: string;
  attributes: string;
  description: string | null;
  disabled: number;
  create_time: number;
  last_updated_time: number;
}
interface ApiKeysTable {
  id: string;
  name: string;
  secret_hash: string;
  owner: string;
  owner_name: string;
  backend_roles: string;
  roles: string | null;
  scope: string | null;
  expires_time: number | null;
  revoked_time: number | null;
  last_used_time: number | null;
  create_time: number;
}
interface RolesTable {
  name: string;
  body: string;
  create_time: number;
  last_updated_time: number;
}
interface RoleMappingsTable {
  role: string;
  users: string;
  backend_roles: string;
  description: string | null;
  last_updated_time: number;
}
interface SignInFailuresTable {
  subject: string;
  failures: number;
  last_time: number;
}

export interface Tables {
  sequences: SequencesTable;
  documents: DocumentsTable;
  document_references: DocumentReferencesTable;
  credentials: CredentialsTable;
  master_keys: MasterKeysTable;
  memories: MemoriesTable;
  messages: MessagesTable;
  tasks: TasksTable;
  runs: RunsTable;
  run_steps: RunStepsTable;
  run_requests: RunRequestsTable;
  processes: ProcessesTable;
  settings: SettingsTable;
  mcp_tools: McpToolsTable;
  offered_names: OfferedNamesTable;
  tool_pins: ToolPinsTable;
  connection_states: ConnectionStatesTable;
  connection_transitions: ConnectionTransitionsTable;
  audit: AuditTable;
  users: UsersTable;
  api_keys: ApiKeysTable;
  roles: RolesTable;
  role_mappings: RoleMappingsTable;
  sign_in_failures: SignInFailuresTable;
}
