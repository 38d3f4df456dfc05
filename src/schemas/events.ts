import { Type } from 'typebox';

export const EventsQuery = Type.Object({
  types: Type.Optional(
    Type.Unknown({ description: 'Comma-separated: connection, tools, run, request, pin; default all' }),
  ),
});
