"""All that the checks say, made of facts: no check reads any of it back.

`words` are for numbers and names, `rulings` for what a ruling rests on, `causes` for why a finding is there, `chain`
for the links of a chain of causes and for what would have kept a record. Reports word the same facts for their readers.
"""
