# 100 Gb/s and 8 us: a bandwidth-delay product, 100,000 B, may be pushed. Of 150,000
# B a third has to be asked for.
credits: push, then pull
line: 100Gbps
rtt: 8us
----
add 150000B  => backlog=150000B credit=0B
request      => total=50000B
request      => total=0B
send 60000B  => sent=yes scheduled=0B backlog=90000B
# 40,000 B of push are left: a packet of 60,000 goes, and owes 20,000 of credit.
send 60000B  => sent=yes scheduled=20000B backlog=30000B credit=-20000B
send 30000B  => sent=no
credit 20000B => credit=0B
send 30000B  => sent=no
credit 50000B => credit=30000B
send 30000B  => sent=yes scheduled=30000B backlog=0B credit=0B
# Totals: the next 10,000 B make 60,000.
add 10000B
request      => total=60000B

# A short message is all push and never asks.
credits: a short message
line: 100Gbps
rtt: 8us
----
add 4000B
request     => total=0B
send 4000B  => sent=yes scheduled=0B

# Three grants of 5,000 B and packets of 4,000: each grant lets one go, as soon as
# there is a byte of credit.
credits: a remainder is no dead weight
line: 100Gbps
rtt: 8us
credit: {push: 0}
----
add 16000B
request       => total=16000B
credit 5000B
send 4000B    => sent=yes credit=1000B
send 4000B    => sent=yes credit=-3000B
send 4000B    => sent=no
credit 10000B => credit=2000B
send 4000B    => sent=yes credit=-2000B
credit 15000B => credit=3000B
send 4000B    => sent=yes credit=-1000B backlog=0B
# The last grant pays: it is not given back.
credit 16000B => credit=0B
return        => bytes=0B

credits: asking first
line: 100Gbps
rtt: 8us
credit: {push: 0}
----
add 4000B
send 4000B    => sent=no
request       => total=4000B
credit 4000B
send 4000B    => sent=yes scheduled=4000B
# A grant that is overtaken by a later one changes nothing.
add 8000B
request       => total=12000B
credit 12000B => credit=8000B
credit 8000B  => credit=8000B

# A flow that ends early takes back what it has asked for and gives back what it
# was granted.
credits: giving back
line: 100Gbps
rtt: 8us
credit: {push: 0}
----
add 20000B
request       => total=20000B
credit 8000B
send 4000B    => sent=yes
cancel 16000B => backlog=0B credit=4000B
return        => bytes=4000B credit=0B
return        => bytes=0B
# One more grant was under way.
credit 12000B
return        => bytes=4000B
# The next flow goes on from there.
add 4000B
request       => total=16000B
credit 16000B
send 4000B    => sent=yes scheduled=4000B
return        => bytes=0B

# While grants are to come, less than request_bytes are not worth a message; the
# last grant that was asked for is the time to ask for all that has gathered.
credits: requests are gathered
line: 100Gbps
rtt: 8us
credit: {push: 0, request_bytes: 10KB}
----
add 1000B     => backlog=1000B
request       => total=1000B
add 9999B
request       => total=0B
add 1B
request       => total=11000B
add 5000B
request       => total=0B
credit 10999B
request       => total=0B
credit 11000B
request       => total=16000B
