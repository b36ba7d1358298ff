-- What an open suspension expects of a signal: its name, and a payload of the type of its form.
-- @uses condition reply
local M = {}

-- The condition of an open suspension, read once.
function M.by(s)
  s.wanted = s.wanted or condition.stored(s.resume_condition_json)
  return s.wanted
end

-- A sender that holds only a link may send the signals that the suspension waits for, and no
-- others. A pending waitpoint does not know them yet.
function M.check_name(s, w, A)
  if A.on_undeclared ~= "refuse" or w.state == "pending" then return nil end
  local wanted = M.by(s)
  if condition.takes(wanted, w.waitpoint_key, A.signal_name) then return nil end
  local names = table.concat(condition.names(wanted, w.waitpoint_key), ", ")
  return reply.invalid("signal_name", "one of the names this waitpoint waits for (" .. names .. ")", A.signal_name)
end

-- A sender that knows the rule of answers compares the payload with the form of the wait first, and says for which
-- suspension it did. Only a signal that counts is an answer.
function M.check_answer(s, w, A)
  if (A.fitted_to or "") == "" or w.state == "pending" or not s.form or A.fitted_to == s.suspension_id then
    return nil
  end
  if not condition.takes(M.by(s), w.waitpoint_key, A.signal_name) then return nil end
  return reply.refuse("answer_unchecked", s.suspension_id, s.form)
end

return M
